# SPDX-License-Identifier: BSD-3-Clause
"""A cache for Swift's proxy that keeps nothing: tempauth refuses to work without one, and needs none for
requests that are signed."""


class NoCache:
    def get(self, *_, **__):
        return None

    def set(self, *_, **__):
        pass

    delete = set_multi = set

    def incr(self, *_, **__):
        return 1

    decr = incr

    def get_multi(self, keys, *_, **__):
        return [None for _ in keys]


def filter_factory(global_conf, **local_conf):
    def wrap(app):
        def run(environ, start_response):
            environ["swift.cache"] = NoCache()
            return app(environ, start_response)
        return run
    return wrap
