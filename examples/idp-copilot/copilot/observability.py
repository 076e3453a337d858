"""A dashboard and alerts for the metrics that a service really has. Pure: made from their names and types."""

import json
from collections.abc import Mapping
from typing import Any

DASHBOARD = "observability/dashboard.json"
ALERTS = "observability/alerts.yaml"

_REQUESTS = "http_requests_total"
_DURATION = "http_request_duration_seconds"
_WIDTH, _HEIGHT, _COLUMNS = 12, 8, 2

_DOWN = """\
groups:
  - name: "{name}"
    rules:
      - alert: ServiceDown
        expr: up{{job="{name}"}} == 0
        for: 2m
        labels:
          severity: page
        annotations:
          summary: "{name} cannot be reached for two minutes."
"""
_ERRORS = """\
      - alert: ManyErrors
        expr: >-
          sum(rate(http_requests_total{{job="{name}",status=~"5.."}}[5m]))
          / sum(rate(http_requests_total{{job="{name}"}}[5m])) > 0.05
        for: 5m
        labels:
          severity: page
        annotations:
          summary: "More than one in twenty answers of {name} is an error."
"""
_SLOW = """\
      - alert: SlowAnswers
        expr: >-
          rate(http_request_duration_seconds_sum{{job="{name}"}}[5m])
          / rate(http_request_duration_seconds_count{{job="{name}"}}[5m]) > 0.5
        for: 10m
        labels:
          severity: ticket
        annotations:
          summary: "{name} takes more than half a second for an answer."
"""


def dashboard(name: str, metrics: Mapping[str, str]) -> str:
    """A dashboard as Grafana imports it, with a panel for each metric."""
    panels = [_panel(number, name, metric, metrics[metric]) for number, metric in enumerate(sorted(metrics))]
    board = json.dumps(
        {
            "title": name,
            "uid": name,
            "tags": ["service"],
            "timezone": "browser",
            "refresh": "30s",
            "schemaVersion": 39,
            "time": {"from": "now-6h", "to": "now"},
            "panels": panels,
        },
        indent=2,
    )
    return f"{board}\n"


def alerts(name: str, metrics: Mapping[str, str]) -> str:
    """Rules as Prometheus loads them; only for what is measured."""
    rules = _DOWN + _ERRORS * (_REQUESTS in metrics) + _SLOW * (_DURATION in metrics)
    return rules.format(name=name)


def _panel(number: int, name: str, metric: str, kind: str) -> dict[str, Any]:
    place = {"x": number % _COLUMNS * _WIDTH, "y": number // _COLUMNS * _HEIGHT, "w": _WIDTH, "h": _HEIGHT}
    return {
        "id": number + 1,
        "title": metric,
        "type": "timeseries",
        "gridPos": place,
        "targets": [{"refId": "A", "expr": _expression(name, metric, kind)}],
    }


def _expression(name: str, metric: str, kind: str) -> str:
    job = f'{{job="{name}"}}'
    if kind == "counter":
        return f"sum by (path, status) (rate({metric}{job}[5m]))" if metric == _REQUESTS else f"rate({metric}{job}[5m])"
    if kind in ("summary", "histogram"):
        return f"rate({metric}_sum{job}[5m]) / rate({metric}_count{job}[5m])"
    return f"{metric}{job}"
