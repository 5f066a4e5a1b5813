// SPDX-License-Identifier: Apache-2.0

/**
 * The thread of the code. It starts the driver as a second one, whose text is its first argument, and says what goes wrong
 * after a call. Code is evaluated here by the driver, through Node's inspector, as a browser's console would.
 */
export const JAVASCRIPT_PROGRAM = String.raw`
(() => {
  const { Worker } = require("node:worker_threads");
  const { inspect } = require("node:util");
  const tell = (what) => (error) => process.stdout.write(what + " " + inspect(error) + "\n");
  // With output that waits to be written the inspector has been seen to hang.
  for (const stream of [process.stdout, process.stderr]) stream._handle?.setBlocking?.(true);
  process.on("uncaughtException", tell("Uncaught"));
  process.on("unhandledRejection", tell("Uncaught (in promise)"));
  process.exit = (code = 0) => { // Node would wait for the inspector to leave.
    throw "process.exit(" + inspect(code) + ")";
  };
  new Worker(process.argv[1], { eval: true });
})();
`;

/**
 * The driver of `Language.command`. It is a thread of its own so that an endless loop does not stop it. `end` is not to be
 * guessed by the code; code that finds it out all the same can only lie about its own output.
 */
export const JAVASCRIPT_DRIVER = String.raw`
const { createReadStream } = require("node:fs");
const { Session } = require("node:inspector");
const { createInterface } = require("node:readline");
const { setTimeout: sleep } = require("node:timers/promises");

setInterval(() => undefined, 2 ** 30); // What the other thread is asked keeps this one from nothing.
const session = new Session();
session.connectToMainThread();

function ask(method, parameters) {
  return new Promise((resolve) => {
    session.post(method, parameters, (error, result) => resolve(error ? { error } : result));
  });
}

const INSPECT = "function (value) { return process.getBuiltinModule('node:util').inspect(value) }";

async function shown(scope, { objectId, unserializableValue, value, description }) {
  if (unserializableValue !== undefined) return unserializableValue;
  const said = await ask("Runtime.callFunctionOn", {
    objectId: scope,
    functionDeclaration: INSPECT,
    arguments: [objectId === undefined ? { value } : { objectId }],
    returnByValue: true,
  });
  return said.result?.value ?? description;
}

/** By the code's thread, after all that the code has written. Where the code was ended, the next evaluation may be ended, too. */
async function write(text) {
  for (let attempt = 0; attempt < 5; attempt += 1) {
    const said = await ask("Runtime.evaluate", { expression: "void process.stdout.write(" + JSON.stringify(text) + ")" });
    if (said.error === undefined && said.exceptionDetails === undefined) return;
  }
}

const LATE = Symbol("late");

async function run(scope, code, seconds, name) {
  const timeout = 1000 * seconds;
  const began = performance.now();
  const timer = new AbortController();
  const expression = code + "\n//# sourceURL=" + name;
  const evaluated = ask("Runtime.evaluate", { expression, timeout, replMode: true, awaitPromise: true });
  const outcome = await Promise.race([evaluated, sleep(timeout, LATE, { signal: timer.signal })]);
  timer.abort();
  if (outcome === LATE) await Promise.race([ask("Runtime.terminateExecution"), sleep(500)]);
  if (outcome === LATE || (outcome.error !== undefined && performance.now() - began >= timeout)) return "deadline";
  const { error, exceptionDetails, result } = outcome;
  if (error !== undefined) await write("Uncaught " + error.message + "\n");
  else if (exceptionDetails !== undefined) await write("Uncaught " + (await thrown(scope, exceptionDetails)) + "\n");
  else if (result.type !== "undefined") await write((await shown(scope, result)) + "\n");
  return "ok";
}

async function thrown(scope, { exception = {}, text }) {
  const description = exception.description ?? (await shown(scope, exception)) ?? text;
  return description.split("\n").filter((line) => !/^ {4}at .*\bnode:/u.test(line)).join("\n");
}

async function main() {
  const { result } = await ask("Runtime.evaluate", { expression: "globalThis" });
  let count = 0;
  for await (const line of createInterface({ input: createReadStream("", { fd: 3 }) })) {
    const { code, seconds, end } = JSON.parse(line);
    count += 1;
    const status = await run(result.objectId, code, seconds, "call-" + count);
    await write(end + " " + status + "\n");
  }
  process.exit();
}

void main();
`;
