"""The door: HTTP in, calls of the server out.

Starlette without FastAPI on top. What FastAPI would add is what this protocol rules out or what is needed anyway: it
answers 422 where the protocol says 400, reads NaN and numbers of any size, and takes its own error bodies; its
document would have to be rewritten for every route. Here models, answers and the OpenAPI document come from one table
of routes (`route.Route`), and a request costs less.
"""
