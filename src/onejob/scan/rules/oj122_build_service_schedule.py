"""OJ122 build-service-schedule

What
    A schedule of a build service: GitHub Actions, GitLab CI, CircleCI, Azure Pipelines, Jenkins.

Why it matters
    Build services start a schedule late, drop it under load, and start it again by hand. Where the
    workflow does the product's own work, two runs may overlap.

Example
    ::

        on:
          schedule:
            - cron: "0 0 * * *"

Instead
    A ``concurrency`` group, so that runs don't overlap; and ``onejob once NAME --per day --
    CMD`` for the step that must happen once.

    Without onejob: in the job itself a unique key of (job, period) before what must happen
    once.

When to ignore
    It only builds, tests or tidies the repository.
"""

CODE = "OJ122"
NAME = "build-service-schedule"
KINDS = ("github-actions", "gitlab-schedule", "circleci", "azure-pipelines", "jenkins")
ADVICE = (
    "Add a concurrency group, and run the step as onejob once NAME --per day -- CMD. Without "
    "onejob: write a unique key of (job, period) before what must happen once."
)
