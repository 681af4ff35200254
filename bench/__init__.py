"""What procession costs, beside a floor and beside other frameworks: `python -m bench --help`."""
