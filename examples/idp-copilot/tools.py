"""The tools of the copilot: what an agent may do to bring a service from a name to staging.

    stellwerk tools --config examples/idp-copilot/operator.yaml

They are thin: each finds the workspace, does one thing of ``copilot``, and says
what came out. All of them run in threads and wait for Git and for processes
with a bound; a deployment outlives the call that made it, so none can run in a
process that is ended with the call.
"""

from base64 import b64encode
from dataclasses import asdict
from shlex import quote
from typing import Annotated, Any, Literal

from stellwerk import data_folder, tool
from stellwerk.envelope.results import Column, Table

from .copilot import documentation, git, guidelines, observability, platform, repositories, source, staging, templates
from .copilot.names import Refused, check_name
from .copilot.workspace import Workspace

Name = Annotated[str, "The project, such as billing-service: 3 to 40 small letters, digits and hyphens."]
Repository = Annotated[str, "The repository, by the name it was created with."]
Visibility = Annotated[
    Literal["private", "public"], "Who may read it: private is only this account; public is what git daemon may serve."
]

_FOUND = 5


@tool(idempotent=True)
def validate_project_name_and_type(
    name: Name,
    project_type: Annotated[
        str | None, "python-service, node-service or go-service; a language will do. Left out if not known yet."
    ] = None,
) -> dict[str, str]:
    """Check that a project can have this name, that the name is free, and that there is a template for its type."""
    found = None if project_type is None else templates.find(project_type)
    repositories.refuse_if_taken(_workspace(), check_name(name))
    return {"name": name} | ({"project_type": found.name, "language": found.language} if found else {})


@tool(effects="write", timeout=90)
def create_repository(name: Name, visibility: Visibility = "private") -> dict[str, Any]:
    """Create a Git repository with a first commit on its branch main. A name that is taken is refused."""
    return _created(name, visibility, protected=False)


@tool(effects="write", idempotent=True, timeout=90)
def setup_branch_protection(
    repository: Repository, branch: Annotated[str, "The branch to protect."] = "main"
) -> dict[str, Any]:
    """Protect a branch: Git refuses every push to it, forced ones and its deletion included."""
    workspace = _workspace()
    place = repositories.existing(workspace, repository)
    with workspace.working_on(repository):
        repositories.protect(place, branch)
        return {"repository": repository, "protected": repositories.protected_branches(place)}


@tool(effects="write", timeout=90)
def create_git_repository_with_branch_protection(name: Name, visibility: Visibility = "private") -> dict[str, Any]:
    """Create a Git repository whose branch main is protected from the beginning. A name that is taken is refused."""
    return _created(name, visibility, protected=True)


@tool(idempotent=True)
def list_templates() -> Table:
    """List the templates that a service can begin with."""
    rows = [
        (one.name, one.language, one.test, "yes" if one.installed() else "no") for one in templates.TEMPLATES.values()
    ]
    return Table(columns=("template", "language", "tests", "runs here"), rows=tuple(rows))


@tool(effects="write", idempotent=True, timeout=90)
def apply_template(
    repository: Repository, template: Annotated[str, "Its name as list_templates gives it; a language will do."]
) -> Table:
    """Fill a new repository with a service that works and its tests; they come to main by a merged branch."""
    chosen = templates.find(template)
    workspace = _workspace()
    place = repositories.existing(workspace, repository)
    with workspace.working_on(repository):
        before = templates.template_of(git.files(place))
        if before not in (None, chosen):
            raise Refused(f"{repository} has the template {before.name} already; create another repository")
        written = chosen.files(repository)
        if before is None:
            git.merge(place, "copilot/template", written, f"Apply the template {chosen.name}")
    return _listed({path: f"{len(text.splitlines())} lines" for path, text in sorted(written.items())})


@tool(effects="write", idempotent=True, timeout=90, output="file_ref")
def setup_cicd_pipeline(repository: Repository) -> dict[str, str]:
    """Add a CI workflow that runs the service's own tests on every push and builds its image."""
    files = _files(repository)
    text = platform.pipeline(repository, templates.needed(repository, files))
    return _brought(repository, "copilot/ci", {platform.PIPELINE: text}, "Test every push", mime="application/yaml")


@tool(effects="write", idempotent=True, timeout=90)
def setup_observability(repository: Repository) -> Table:
    """Add a Grafana dashboard and Prometheus alerts for the metrics that the service really has."""
    found = source.metrics(_files(repository))
    if not found:
        raise Refused(f"the source of {repository} has no metrics; apply a template with apply_template first")
    board, alerts = observability.dashboard(repository, found), observability.alerts(repository, found)
    written = {observability.DASHBOARD: board, observability.ALERTS: alerts}
    _merge(repository, "copilot/observability", written, "Watch the service")
    about = f"for {', '.join(sorted(found))}"
    return _listed({observability.DASHBOARD: f"Grafana dashboard {about}", observability.ALERTS: f"alerts {about}"})


@tool(effects="write", idempotent=True, timeout=90, output="file_ref")
def generate_k8s_manifests(repository: Repository) -> dict[str, str]:
    """Add a Kubernetes Deployment, with probes and limits, and the Service in front of it."""
    templates.needed(repository, _files(repository))
    written = {platform.MANIFESTS: platform.manifests(repository)}
    return _brought(repository, "copilot/k8s", written, "Run on Kubernetes", mime="application/yaml")


@tool(effects="write", idempotent=True, timeout=90, output="file_ref")
def generate_documentation(repository: Repository) -> dict[str, str]:
    """Write a page about the repository from what it holds: endpoints, metrics, how to test and run it, files."""
    place = repositories.existing(_workspace(), repository)
    kept = repositories.protected_branches(place)
    text = documentation.page(repository, git.files(place), protected=kept, address=quote(str(place)))
    return _brought(repository, "copilot/docs", {documentation.PAGE: text}, "Describe it", mime="text/markdown")


@tool(idempotent=True)
def search_knowledge_base_for_guidelines(query: Annotated[str, "What to look for, in a few words."]) -> Table:
    """Search the house's guidelines for services; the best come first, each with the passage that fits best."""
    texts = guidelines.read_guidelines()
    found = guidelines.ranked(query, texts)
    rows = [
        (guidelines.heading(texts[name]), name, round(score, 2), guidelines.passage(query, texts[name]))
        for name, score in found[:_FOUND]
    ]
    columns = ("guideline", "file", Column(name="score", type="number"), "passage")
    return Table(columns=columns, rows=tuple(rows), total=len(found))


@tool(effects="external", idempotent=True, timeout=300)
def deploy_to_staging(repository: Repository) -> dict[str, Any]:
    """Start main's newest commit on a free port of this machine and check its health.

    What ran before is replaced once the new one is healthy, and stays if it is not. It runs as long as the server does.
    """
    return asdict(staging.deploy(_workspace(), repository))


@tool(effects="external", idempotent=True, timeout=90)
def undo_deployment(repository: Repository) -> dict[str, Any]:
    """End what runs of a repository in staging, and remove its files there; the repository stays."""
    ended = staging.undo(_workspace(), repository)
    return {"repository": repository, "ended": asdict(ended) if ended else None}


def _workspace() -> Workspace:
    return Workspace(data_folder() / "workspace")


def _created(name: str, visibility: str, *, protected: bool) -> dict[str, Any]:
    place = repositories.create(_workspace(), name, visibility, protected=protected)
    kept = ["main"] if protected else []
    location = {"path": str(place), "clone": f"git clone {quote(str(place))}"}
    return {"repository": name, "visibility": visibility, "protected": kept, **location}


def _files(repository: str) -> dict[str, str]:
    return git.files(repositories.existing(_workspace(), repository))


def _merge(repository: str, branch: str, written: dict[str, str], title: str) -> None:
    workspace = _workspace()
    place = repositories.existing(workspace, repository)
    with workspace.working_on(repository):
        git.merge(place, branch, written, title)


def _brought(repository: str, branch: str, written: dict[str, str], title: str, *, mime: str) -> dict[str, str]:
    """Merge one file, and give it to the user, too."""
    _merge(repository, branch, written, title)
    ((path, text),) = written.items()
    carried = b64encode(text.encode()).decode()
    return {"kind": "file_ref", "filename": path.rpartition("/")[2], "mime": mime, "bytes_b64": carried}


def _listed(files: dict[str, str]) -> Table:
    return Table(columns=("file", "what"), rows=tuple(files.items()))


tools = [
    validate_project_name_and_type,
    create_repository,
    setup_branch_protection,
    create_git_repository_with_branch_protection,
    list_templates,
    apply_template,
    setup_cicd_pipeline,
    setup_observability,
    generate_k8s_manifests,
    generate_documentation,
    search_knowledge_base_for_guidelines,
    deploy_to_staging,
    undo_deployment,
]
