"""Files for the platforms around a service: its pipeline and its Kubernetes manifests. Pure: text from names.

Values that come from a name are quoted, because a service may be called ``null`` or ``true``.
"""

from .templates import Template

PIPELINE = ".github/workflows/ci.yml"
MANIFESTS = "k8s/manifests.yaml"
PORT = 8080

_PIPELINE = """\
name: CI
on:
  push:
    branches: ["**"]
  pull_request:
permissions:
  contents: read
jobs:
  test:
    runs-on: ubuntu-latest
    timeout-minutes: 10
    steps:
      - uses: actions/checkout@v4
      - uses: {action}
        with:
          {language}-version: "{version}"
      - run: {test}
  image:
    needs: test
    runs-on: ubuntu-latest
    timeout-minutes: 15
    steps:
      - uses: actions/checkout@v4
      - run: docker build --tag "{name}:$GITHUB_SHA" .
"""

_MANIFESTS = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: "{name}"
  labels:
    app.kubernetes.io/name: "{name}"
spec:
  replicas: 2
  selector:
    matchLabels:
      app.kubernetes.io/name: "{name}"
  template:
    metadata:
      labels:
        app.kubernetes.io/name: "{name}"
      annotations:
        prometheus.io/scrape: "true"
        prometheus.io/path: /metrics
        prometheus.io/port: "{port}"
    spec:
      automountServiceAccountToken: false
      securityContext:
        runAsNonRoot: true
        runAsUser: 10001
        seccompProfile:
          type: RuntimeDefault
      containers:
        - name: "{name}"
          image: "{name}:latest" # put the tag here that the pipeline built
          ports:
            - name: http
              containerPort: {port}
          readinessProbe:
            httpGet:
              path: /health
              port: http
            periodSeconds: 5
          livenessProbe:
            httpGet:
              path: /health
              port: http
            initialDelaySeconds: 5
            periodSeconds: 10
          resources:
            requests:
              cpu: 50m
              memory: 64Mi
            limits:
              memory: 256Mi
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities:
              drop: ["ALL"]
---
apiVersion: v1
kind: Service
metadata:
  name: "{name}"
  labels:
    app.kubernetes.io/name: "{name}"
spec:
  selector:
    app.kubernetes.io/name: "{name}"
  ports:
    - name: http
      port: 80
      targetPort: http
"""


def pipeline(name: str, template: Template) -> str:
    """A workflow that runs the template's own tests on every push, and then builds the image."""
    language = template.language.lower()
    return _PIPELINE.format(
        name=name, action=template.action, language=language, version=template.version, test=template.test
    )


def manifests(name: str) -> str:
    """A Deployment and the Service in front of it."""
    return _MANIFESTS.format(name=name, port=PORT)
