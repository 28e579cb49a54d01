"""Many shots as one job: a jobs file, tasks that do no harm when done twice, engines that do them, one summary page."""
