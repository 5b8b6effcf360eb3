"""Checks Kubernetes manifests without a cluster: every key exists, every value has its type, nothing that is required
is missing. The source of truth is the official Python client, whose classes are generated from Kubernetes' own OpenAPI
description. `openapi_types` has the type of every field, `attribute_map` its name in YAML, and the constructor refuses
an object without a required field.

    python3 tests/deploy/manifests.py FILE...      prints the faults of each document"""

import re
import sys

import yaml
from kubernetes import client

# Fields that the description calls plain objects or strings, but that have a form.
QUANTITY = re.compile(r"\d+(\.\d+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?")
SCALARS = {"str": str, "bool": bool, "int": int, "float": (int, float)}


# The objects that the operator of Prometheus adds to Kubernetes, as far as deploy/ uses it:
# https://prometheus-operator.dev/docs/api-reference.
OWN = {}


def own(title, required, /, **types):
    """Describes an object as the client's classes do."""
    class Described:
        openapi_types = types
        attribute_map = {key: key for key in types}

        def __init__(self, **values):
            missing = [key for key in required if key not in values]
            if missing:
                raise ValueError(f"lacks {', '.join(missing)}")
    OWN[title] = Described
    return Described


own("MonitorEndpoint", ["port"], port="str", path="str", scheme="str", interval="str", scrapeTimeout="str")
own("MonitorSpec", ["selector", "endpoints"], selector="V1LabelSelector", endpoints="list[MonitorEndpoint]", jobLabel="str")
own("monitoring.coreos.com/v1 ServiceMonitor", ["spec"], apiVersion="str", kind="str", metadata="V1ObjectMeta",
    spec="MonitorSpec")
own("OperatorsRule", ["expr"], **{"alert": "str", "record": "str", "expr": "str", "for": "str", "labels": "dict(str, str)",
                                  "annotations": "dict(str, str)"})
own("OperatorsGroup", ["name", "rules"], name="str", interval="str", rules="list[OperatorsRule]")
own("OperatorsRules", ["groups"], groups="list[OperatorsGroup]")
own("monitoring.coreos.com/v1 PrometheusRule", ["spec"], apiVersion="str", kind="str", metadata="V1ObjectMeta", spec="OperatorsRules")


def class_of(document):
    """The class that describes a document, by its apiVersion and kind."""
    described = OWN.get(f"{document['apiVersion']} {document['kind']}")
    if described is not None:
        return described
    group, _, version = document["apiVersion"].rpartition("/")
    prefix = "".join(part.capitalize() for part in group.split(".")[:1]) if "." in group else ""
    version = version[0].upper() + version[1:]
    for name in (version + document["kind"], prefix + version + document["kind"]):
        if hasattr(client, name):
            return getattr(client, name)
    return None


def faults_of_scalar(value, kind, where):
    # YAML's true and false are ints to Python.
    wrong = not isinstance(value, SCALARS[kind]) or (kind != "bool" and isinstance(value, bool))
    return [f"{where}: {value!r} is no {kind}"] if wrong else []


def faults_of_quantities(value, where):
    return [f"{where}.{key}: {amount!r} is no quantity" for key, amount in value.items()
            if not QUANTITY.fullmatch(str(amount))]


def faults(value, kind, where):
    """All faults of a value that should be of a type named as the client names types."""
    if kind in SCALARS:
        return faults_of_scalar(value, kind, where)
    if kind in ("object", "datetime"):  # a port: a number or a name
        return []
    items = re.fullmatch(r"list\[(.*)\]", kind)
    if items:
        if not isinstance(value, list):
            return [f"{where}: {value!r} is no list"]
        return [f for i, v in enumerate(value) for f in faults(v, items[1], f"{where}[{i}]")]
    entries = re.fullmatch(r"dict\(str, (.*)\)", kind)
    if not isinstance(value, dict):
        return [f"{where}: {value!r} is no mapping"]
    if entries:
        found = [f for k, v in value.items() for f in faults(v, entries[1], f"{where}.{k}")]
        named = where.rpartition(".")[2] in ("requests", "limits")
        return found + (faults_of_quantities(value, where) if named and not found else [])
    return faults_of_object(value, OWN.get(kind) or getattr(client, kind), where)


def faults_of_object(value, cls, where):
    attributes = {key: name for name, key in cls.attribute_map.items()}
    found, arguments = [], {}
    for key, item in value.items():
        if key not in attributes:
            found.append(f"{where}.{key}: no such key")
        else:
            arguments[attributes[key]] = item
            found += faults(item, cls.openapi_types[attributes[key]], f"{where}.{key}")
    try:
        cls(**arguments)
    except ValueError as error:
        found.append(f"{where}: {error}")
    return found


def check(text):
    """The faults of all documents in a YAML text, and the documents."""
    documents = [d for d in yaml.safe_load_all(text) if d is not None]
    found = []
    for document in documents:
        where = f"{document.get('kind')}/{document.get('metadata', {}).get('name')}"
        cls = class_of(document)
        if cls is None:
            found.append(f"{where}: {document.get('apiVersion')} has no such kind")
        else:
            found += faults_of_object(document, cls, where)
    return found, documents


def main():
    found = [f for name in sys.argv[1:] for f in check(open(name, encoding="utf-8").read())[0]]
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
