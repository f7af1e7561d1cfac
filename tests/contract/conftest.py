"""The contract is no test of this project's own: ``run.py`` takes it to those of Scrapy."""

collect_ignore = ["test_threadpool_contract.py"]
