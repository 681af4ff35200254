"""`hook_args` gives an object of the class it was asked for."""

from typing import assert_type

from procession import ProcessOutputStepArgs, ProcessOutputStreamArgs
from procession.testing import RecordingWriter, hook_args

step = hook_args(ProcessOutputStepArgs, text="Well", request_context={"region": "north"})
assert_type(step.text, str)
step.state["seen"] = True

stream = hook_args(ProcessOutputStreamArgs)
if isinstance(stream.writer, RecordingWriter):
    assert_type(stream.writer.chunks[0].type, str)
