"""The local web app: logs, live studies, rating. `chimera view` starts it.

`serving` opens the port, `safety` stands before everything, `app` holds the parts together. Each
part has a module with its `ROUTES` (`logs`, `study`, `rating`, `raters`), its templates in
`templates/` and its scripts in `static/`; `pages.page` fills a template, `live` keeps open pages up
to date. `log_index` and `watch` read the logs and the studies behind the pages.
"""
