"""Runs scenario files on the library and writes what happened as traces that can be compared.

A *scenario* describes, in no particular language, an agent, its scripted models, its processors as
lists of small operations, and calls. A *trace* is what a run of it did: the order of events, what
the models were sent, the chunks, the result, the messages. Not part of the installed package.

    python -m conformance SCENARIOS_DIR OUT_DIR
    python -m conformance.compare EXPECTED_DIR OUT_DIR
"""
