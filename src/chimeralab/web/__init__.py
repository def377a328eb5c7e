"""The local web app behind `chimera view`: logs, live studies, rating.

`serving` opens the port, `safety` checks every request, and `app` assembles the parts. Each part is
a module with `ROUTES` (`logs`, `study`, `rating`, `raters`), with templates in `templates/` and
scripts in `static/`. `pages` renders templates, `live` updates open pages, and `log_index` and
`watch` read the logs and studies.
"""
