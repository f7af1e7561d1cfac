"""Measure the handler against its peers: same spider, same server, one run (``make bench``)."""
