"""The engine's processes as the screens see them, and the two small programs that run in them. Nothing here blocks.

- `engine_process` runs any of them; `command_lines` are the commands of runs, `background_task` is work in a thread.
- Pictures: `frame_cache` asks the program `decoder`, through `shared_memory`; `studio_views` are views of OCIO.
- Live answers: `live_client`, with `drag_messages`. Runs: `run_worker`. Exports: `export_client` asks the program
  `export_worker`.
"""
