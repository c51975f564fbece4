"""The Memories provider over HTTP: the chapter "Memories" of the Unified Harness Protocol on top of signed streams.

Which module holds what, from the wire down:

    http/app.py         the ASGI application: what every request goes through, and the list of routes
    http/route.py       one route: its models, its answers, its place in the OpenAPI document
    http/body.py        strict JSON of bounded size and depth
    http/models.py      the shapes of requests and answers
    http/memories.py    routes of section 2 and 3: the tree and its grants
    http/records.py     routes of section 4 to 6: records, observe, recall, history, erase
    http/harnesses.py   routes of section 9: attaching
    http/queries.py     routes of section 6.4 and 6.5: named and free queries
    http/files.py       routes of section 7: uploads, bytes of records; http/upload.py reads what was sent
    http/snapshots.py, http/consolidations.py
                        routes of section 5.3 and 9.2
    http/...            a module per further group of routes; each has a `ROUTES` that `app.py` lists
    operate.py          what `hn uhp` does: serve, keys, groups
    access.py           the tree as one caller sees it; every check of section 3 is made here
    server.py           what a request works with: state, providers, caller, and the transactions of a write
    uploads.py          whose an upload is, and for how long
    consolidation.py    runs: queued, done in steps, recovered, reverted; duplicates.py decides what a pass does
    parameters.py       the JSON Schema of a named query's parameters
    sql/                free queries: the rows of one memory as a database, and the process that asks it
    state/              the server's own state in SQL: schema, store, snapshot of the tree, keys, idempotency
    hn/                 the provider on signed streams: trailers, views, recall, queries, files, the provider
    provider.py         the contract of section 10; knows nothing of HTTP, SQL or Git
    values.py           what passes between the server and a provider
    faults.py           the refusals of section 12 and what a refusal of the repository becomes
    filters.py, ranking.py, instants.py
                        conditions, words and times that a provider may use

A route that is added has a function from a `Call` to a JSON value and one `Route` in its module's `ROUTES`; the
OpenAPI document, the limits and the error bodies follow from that. Nothing here is imported by the command line
unless `hn uhp` runs; the dependencies are those of the extra `hn-memory[uhp]`.
"""
