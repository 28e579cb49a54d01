"""The whole pipeline of `rotopaint run`, in two passes over the plate, in threads with bounded queues.

The modules in the order of a run:

    plan            a job checked at the door: plate, pack, frames, crops
    run             the main job: `run(job, sink, cancel) -> Outcome`; its events are made in `plan`; the same in tasks
                    for several processes: track, paint, gather
    executor        frames read ahead, tracked in order, finished side by side; snapshots; the time of each stage
    passes          the first pass: the face followed through the shot (`face_tracker`), then its seams by the whole
                    shot (`shot_seams`, with the head of `head_solve`, or the one that the pack knows, `known_head`;
                    where they end says `seam_ends`), their widths (`shot_widths`), and what people corrected
                    (`carried_corrections`); the second: each
                    settled frame painted once, with what people have done on the shot (`overrides`), from what the
                    first has kept (`frame_store`)
    process_frame   one settled frame to files and a record; a hold copies its mattes
    hold_outs       what stands in front of the face, once for each exposure, taken out of the seams' mattes
    render_frame    shapes to mattes, fills, clean plate and patch, with clone strokes over them; the report's pictures
    finalise        after the last frame: the document (`run_document`), exports (`export`), `run.json` and the frames
                    that the report shows (`manifest`), report

What a run keeps: `out_folder` (whose the folder is, and its lock), `record_store` (records, journal and what
`--resume` needs), `save_to_project` (results into a project file).

`rotopaint matte` and `clean` take finished shapes or external mattes, or take rigs off: `paint_job` over
`painter`. `teach` carries corrections of seams over to a shot's other poses, and `corrected_project` the head that they
give to the character's next shots.
"""
