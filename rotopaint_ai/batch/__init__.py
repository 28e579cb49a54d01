"""Many shots as one job: a jobs file, idempotent tasks, engines that execute them, and one summary page."""
