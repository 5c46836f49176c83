"""Three web workers, each of them a replica.

    createdb shop
    python manage.py migrate
    gunicorn --workers 3 wsgi

An order and the run that confirms it are committed together, or neither is. Each fire time of the
report writes one report, whichever worker has it. ``python manage.py onejob worker`` is another
replica, without the web; ``python manage.py onejob why report`` tells what happened.
"""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "settings")
application = get_wsgi_application()

from onejob.django import app  # noqa: E402 - once Django is set up

app.start()
