"""The suites, one file each: ``run(run)`` asks its questions and gives its part of the report."""
