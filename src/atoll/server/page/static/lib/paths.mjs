/** Paths as texts of JSON, so that no key loses digits on its way. */
import { Problem } from "./api.mjs";

/** @param {any} schema As the service gives it. @returns {string} As users write it. */
export function schemaText(schema) {
  if (typeof schema === "string") return schema.replace(/\?$/, " | None");
  if (schema.tuple) return `tuple[${schema.tuple.map(schemaText).join(", ")}]${schema.optional ? " | None" : ""}`;
  if (schema.list) return `List(${schemaText(schema.list)})`;
  if (schema.map) return `Map(${schema.map.map(schemaText).join(", ")})`;
  if (schema.set) return `Set(${schemaText(schema.set)})`;
  return `Struct(${schema.struct.map(([name, each]) => `${name}=${schemaText(each)}`).join(", ")})`;
}

/** The schema behind one key, and the step that leads there. */
function below(schema, key) {
  if (schema.map) return [`["key",${asKey(schema.map[0], key)}]`, schema.map[1]];
  if (schema.list) return [`["nth",${Number.parseInt(key, 10) || 0}]`, schema.list];
  if (schema.struct) {
    const found = schema.struct.find(([name]) => name === key);
    if (found) return [`["field",${JSON.stringify(key)}]`, found[1]];
    throw new Problem({ detail: `there is no field ${key}`, hint: `there is ${schema.struct.map(([name]) => name).join(", ")}` });
  }
  throw new Problem({ detail: `nothing is below ${schemaText(schema)}`, hint: "leave the last keys out" });
}

/** A key as JSON: text where the schema has text, else as it was typed. */
function asKey(kind, key) {
  const word = typeof kind === "string" ? kind.replace(/\?$/, "") : "tuple";
  if (word !== "tuple" && !["int", "float", "bool"].includes(word)) return JSON.stringify(key);
  try {
    JSON.parse(key);
    return key;
  } catch {
    throw new Problem({ detail: `${key} is no key of type ${schemaText(kind)}`, hint: word === "tuple" ? 'write it as JSON: [1, "a"]' : "write it as JSON" });
  }
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    throw new Problem({ detail: "the path is no JSON", hint: 'write it like [["key","a"]]' });
  }
}

/**
 * What somebody typed as a path: JSON as it is, or keys with a slash between them.
 *
 * @param {string} text
 * @param {any} schema Of the PState.
 * @param {string} [from] A path to begin from.
 * @param {boolean} [alone] Only the key, as JSON.
 * @returns {string} JSON.
 */
export function keysToPath(text, schema, from = "[]", alone = false) {
  let at = schema;
  for (const [name, key] of parsed(from)) at = below(at, name === "nth" ? String(key) : typeof key === "string" ? key : JSON.stringify(key))[1];
  if (alone) {
    if (at.set) return asKey(at.set, text);
    return below(at, text)[0].replace(/^\["\w+",|\]$/g, "");
  }
  if (/^\[\s*(\[|\])/.test(text)) {
    parsed(text);
    return text;
  }
  const steps = [];
  for (const key of text.split("/").map((each) => each.trim())) {
    const [step, next] = below(at, key);
    steps.push(step);
    at = next;
  }
  return `[${steps.join(",")}]`;
}
