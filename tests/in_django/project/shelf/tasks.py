import django

if django.VERSION >= (6,):
    from django.tasks import task
else:
    from django_tasks import task


@task()
def add(a, b):
    return a + b


@task(priority=50, queue_name="reports")
def report(**options):
    return options


@task()
def fail():
    raise ValueError("out of paper")


@task()
def unfit():
    return object()


@task(takes_context=True)
def who(context, suffix):
    return f"{context.task_result.id}{suffix}:{context.attempt}"


@task()
async def wait(text):
    return text
