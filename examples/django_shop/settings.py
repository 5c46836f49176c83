"""A project with one app. What is onejob's is marked."""

import os

SECRET_KEY = os.environ.get("SECRET_KEY", "for this example only")
ALLOWED_HOSTS = ["127.0.0.1"]
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
ROOT_URLCONF = "shop.urls"
WSGI_APPLICATION = "wsgi.application"
INSTALLED_APPS = [
    "onejob.django",  # onejob: finds jobs.py in the apps
    "shop",
]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": os.environ.get("PGDATABASE", "shop"),
        "USER": os.environ.get("PGUSER", "postgres"),
        "HOST": os.environ.get("PGHOST", "127.0.0.1"),
        "PORT": os.environ.get("PGPORT", "5432"),
        "ATOMIC_REQUESTS": True,  # a view's rows and the runs that it asks for: all, or none
    }
}
ONEJOB = {  # onejob: in the project's own database
    "NAME": "shop",
    "LEASE": os.environ.get("EXAMPLE_LEASE", "12s"),
}
