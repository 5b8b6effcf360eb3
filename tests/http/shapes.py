"""Makes JSON Schemas of the part that the server takes, at random, for the tests of shapes."""

import random

NAMES = ["a", "b", "name", "né", "with \"quotes\"", "tab\t", "long_name_of_a_member", "日期", "x-y", ""]
FORMATS = ["date", "time", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri"]
PATTERNS = ["^[a-z]{1,4}$", "^\\d{2,3}-\\w+$", "b", "^(yes|no)$", "^a", "[0-9]$", "^[^\\d]{2}$", "^\\S\\D\\W?$", "^\"\\\\\n?$", "^x|y$"]
VALUES = [None, True, False, 0, -7, 1.5, 0.1, 1e300, "", "text", "日\n\"", [], [1, [2]], {}, {"k": {"l": []}}]


def string(r):
    kind = r.randrange(6)
    if kind == 0:
        return {"type": "string", "format": r.choice(FORMATS)}
    if kind == 1:
        return {"type": "string", "pattern": r.choice(PATTERNS)}
    if kind == 2:
        least = r.randrange(5)
        return {"type": "string", "minLength": least, "maxLength": least + r.randrange(9)}
    if kind == 3:
        return {"type": "string", "maxLength": r.randrange(70)}
    return {"type": "string"}


def number(r):
    schema = {"type": r.choice(["integer", "number"])}
    low, high = sorted(r.choice([-1000, -21, -1, 0, 1, 7, 10, 99, 100, 12345]) + r.randrange(3) for _ in "ab")
    if r.random() < 0.5:
        schema[r.choice(["minimum", "exclusiveMinimum"])] = low - 1
    if r.random() < 0.5:
        schema[r.choice(["maximum", "exclusiveMaximum"])] = high + 1
    return schema


def an_object(r, depth):
    names = r.sample(NAMES, r.randrange(5))
    schema = {"type": "object", "properties": {name: make(r, depth - 1) for name in names}}
    schema["required"] = [name for name in names if r.random() < 0.5]
    if r.random() < 0.6:
        schema["additionalProperties"] = r.choice([False, False, True, {"type": "integer"}])
    return schema


def an_array(r, depth):
    schema = {"type": "array", "items": make(r, depth - 1)}
    if r.random() < 0.2:
        schema["prefixItems"] = [make(r, depth - 1) for _ in range(r.randrange(1, 3))]
        schema["maxItems"] = 4
    elif r.random() < 0.8:
        least = r.randrange(3)
        schema |= {"minItems": least, "maxItems": least + r.randrange(4)}
    return schema


def make(r, depth):
    """A schema at most `depth` levels deep."""
    kind = r.randrange(12)
    if depth > 0 and kind < 3:
        return an_object(r, depth)
    if depth > 0 and kind < 5:
        return an_array(r, depth)
    if depth > 0 and kind == 5:
        return {r.choice(["anyOf", "oneOf"]): [make(r, depth - 1), {"const": r.choice(VALUES)}], "description": "either"}
    if kind == 6:
        return {"enum": r.sample(VALUES, r.randrange(1, 5))}
    if kind == 7:
        return {"type": r.sample(["null", "boolean", "integer", "string"], 2), "minimum": 3}
    if kind == 8:
        return {"type": r.choice(["null", "boolean"]), "title": "plain"}
    return number(r) if kind in (9, 10) else string(r)


def schemas(n, seed):
    """n schemas. A oneOf of values that both alternatives allow would refuse them, so it is an anyOf to the judge."""
    r = random.Random(seed)
    return [make(r, 3) for _ in range(n)]


def for_the_judge(schema):
    """The schema with anyOf in the place of oneOf, as the server reads it."""
    if isinstance(schema, list):
        return [for_the_judge(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {"anyOf" if key == "oneOf" else key: value if key in ("enum", "const") else for_the_judge(value)
            for key, value in schema.items()}


TREE = {"$defs": {"node": {"type": "object", "properties": {"value": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
                           "required": ["value", "next"], "additionalProperties": False}},
        "$ref": "#/$defs/node"}
BY_HAND = [
    TREE,
    {},
    True,
    {"type": "object"},
    {"type": "array", "minItems": 2, "maxItems": 2},
    {"type": "string", "minLength": 100, "maxLength": 100},
    {"type": "array", "items": {"$ref": "#"}, "maxItems": 2},
    {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
    {"type": "number", "minimum": -1, "maximum": 0},
    {"type": "integer", "minimum": 99, "maximum": 1001},
    {"type": "integer", "minimum": 0.5, "exclusiveMaximum": 3},
    {"type": "object", "properties": {"a": {"type": "integer"}, "ab": {"type": "null"}}, "additionalProperties": {"type": "string", "maxLength": 3}},
    {"type": "object", "properties": {f"p{i}": {"type": "boolean"} for i in range(60)}, "additionalProperties": False},
    {"type": "object", "properties": {f"p{i}": {"type": "boolean"} for i in range(210)}, "required": [f"p{i}" for i in range(210)]},
]
