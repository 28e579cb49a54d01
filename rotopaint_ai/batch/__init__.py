"""Many shots as one job: a jobs file, idempotent tasks, the engines that execute them, and a summary page.

- `jobs_file` reads a show (its `text` is YAML or JSON). `tasks` are a shot's tasks, `show_plan` those of a show that
  are not done yet, `turns` their order.
- `attempt` executes a task in any engine: this process, `cluster` (Dask, whose own workers `own_worker` sets up), or
  `openjd` (a template for farms).
- `notes` keeps the state of each task, `task_files` its files, `summary` writes the page of the show.
"""
