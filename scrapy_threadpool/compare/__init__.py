"""Crawl the same pages with and without the worker threads, and say what differs.

`plan` says what one run is to do, `run` does it in a process of its own with `measure` listening,
`rounds` alternates the runs, `summary` and `differences` make sense of them, `document` gathers
that, `table` and `report` show it.
"""
