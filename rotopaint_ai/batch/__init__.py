"""Many shots as one job: a jobs file, idempotent tasks, the engines that execute them, and a summary page."""
