"""Many shots as one job: a jobs file, tasks that several processes share without doing one twice, one summary page."""
