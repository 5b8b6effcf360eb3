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
        return {"type": "string", "pattern": r.choice(PATTERNS)} | r.choice([{}, {}, {"maxLength": 20}, {"minLength": 1}])
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
    if r.random() < 0.2:
        schema = {"type": schema["type"], "minimum": low - 30, "multipleOf": r.choice([1, 2, 7, 10, 25])}
    elif r.random() < 0.3:
        schema |= {key: value + r.choice([0.5, -0.25, 0.001]) for key, value in schema.items() if key != "type"}
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
    {"type": "integer", "minimum": -9007199254740991, "maximum": 9007199254740991},
    {"type": "number", "minimum": -3.4028234663852886e38, "maximum": 3.4028234663852886e38},
    {"type": "number", "exclusiveMinimum": 0.5, "maximum": 0.75},
    {"type": "number", "minimum": -0.01, "exclusiveMaximum": 0.01},
    {"type": "number", "exclusiveMinimum": -99.95, "maximum": -99.25},
    {"type": "number", "minimum": -7.25, "maximum": 3.125},
    {"type": "integer", "exclusiveMinimum": 3, "maximum": 1e6, "multipleOf": 100},
    {"type": "integer", "multipleOf": 7, "minimum": -50},
    {"type": "string", "pattern": "^[a-z]+$", "minLength": 3, "maxLength": 10},
    {"type": "string", "pattern": "é\"", "minLength": 4, "maxLength": 8},
    {"type": "string", "pattern": "^-?[0-9]+(,[0-9]+)*$", "maxLength": 12},
    {"type": "string", "format": "uri", "minLength": 1, "maxLength": 60},
    {"type": "string", "format": "date", "pattern": "^2[0-9]{3}-0[1-9]-1[0-9]$"},
    {"type": "string", "minLength": 300, "maxLength": 700},
    {"type": "string", "minLength": 130, "maxLength": 200},
    {"type": "string", "maxLength": 100000},
    {"type": "object", "propertyNames": {"enum": ["a", "b"]}, "additionalProperties": {"type": "null"}, "required": ["b"]},
    {"type": "object", "propertyNames": {"type": "string", "pattern": "^x[0-9]$"}, "additionalProperties": {"type": "null"}},
    {"type": "object", "propertyNames": {"type": "string"}, "additionalProperties": {"type": "boolean"}},
    {"type": "object", "required": ["a"], "properties": {"b": {"type": "null"}}},
    {"oneOf": [{"type": "object", "properties": {"k": {"const": "a"}, "n": {"type": "integer"}}, "required": ["k", "n"]},
               {"type": "object", "properties": {"k": {"const": "b"}}, "required": ["k"]}],
     "discriminator": {"propertyName": "k"}, "x-order": 1},
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
