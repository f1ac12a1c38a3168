/**
 * Programs that try to leave their sandbox, by the ways that have led out of others. Each tries to get what only the host has.
 *
 * Sources: the escapes of vm2 (CVE-2023-29017, CVE-2023-30547, CVE-2023-32314, CVE-2023-37466, CVE-2023-37903: errors made by the
 * host, prepareStackTrace, proxies, async functions, species), of Node's own `vm` ("this.constructor.constructor"), of
 * n8n and Jinja-like templates in PayloadsAllTheThings "Server Side Template Injection / JavaScript"; quickjs's `std` and
 * `os` modules; OWASP "NodeJS Security"; prototype pollution payloads of HackTricks.
 */
const makers = [
  'this.constructor.constructor',
  'globalThis.constructor.constructor',
  '(function () {}).constructor',
  '(() => {}).constructor',
  '(async () => {}).constructor',
  'Object.getPrototypeOf(async function () {}).constructor',
  'console.log.constructor',
  'console.constructor.constructor',
  'input.constructor.constructor',
  'Promise.resolve().then.constructor',
  'new Error().constructor.constructor',
  'Reflect.get(Object, "constructor")',
  '[].filter.constructor',
  'new Proxy(Function, {})',
  'eval("Function")',
  '(0, eval)("this").constructor.constructor',
]
const wants = [
  'return process',
  'return process.env.CANARY',
  'return process.mainModule.require("fs").readFileSync("/etc/passwd", "utf8")',
  'return process.binding("fs")',
  'return require("child_process").execSync("id").toString()',
  'return module.constructor._load("fs")',
  'return fetch("http://127.0.0.1:1/")',
  'return new Worker("x")',
  'return Deno.readTextFileSync("/etc/passwd")',
  'return Bun.file("/etc/passwd")',
  'return std.loadFile("/etc/passwd")',
  'return os.exec(["id"])',
  'return new WebAssembly.Module(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0]))',
  'return new SharedArrayBuffer(8).missing()',
  'return setTimeout(() => {}, 1)',
]
const names =
  `process require module exports __dirname __filename Buffer setImmediate setInterval setTimeout clearTimeout
  queueMicrotask.constructor.x fetch XMLHttpRequest WebSocket Worker SharedWorker importScripts Deno Bun std os bjson scriptArgs
  load loadScript read readline quit print.x alert navigator window self document location localStorage indexedDB crypto
  global root GLOBAL WScript ActiveXObject java Packages parentPort workerData MessageChannel structuredClone.x`.split(
    /\s+/,
  )
const modules = [
  'fs',
  'node:fs',
  'os',
  'std',
  'child_process',
  'node:child_process',
  'net',
  'http',
  'worker_threads',
  'vm',
  'process',
  'module',
  './code.js',
  '../../../../etc/passwd',
  '/etc/passwd',
  'file:///etc/passwd',
  'http://127.0.0.1:1/x.js',
  'data:text/javascript,1',
  'qjs:std',
  'qjs:os',
  'qjs:bjson',
]

/** Each of them fails: what it wants is not there. */
export const hostileCode: string[] = [
  ...makers.flatMap((maker) => wants.map((want) => `${maker}(${JSON.stringify(want)})()`)),
  ...names.map((name) => `${name}.x`),
  ...modules.map((name) => `await import(${JSON.stringify(name)})`),
  ...modules.map((name) => `import * as x from ${JSON.stringify(name)}; x`),
  'try { null.x } catch (error) { error.constructor.constructor("return process")() }',
  'Error.prepareStackTrace = (error, frames) => frames[0].getThis().process.env; new Error().stack.x.y',
  'console.log.call.call(console.log.constructor("return process"))',
  'new Proxy({}, { get: (target, key, receiver) => process })["x"]',
  'const { env } = await (async () => process)(); env',
  'Object.defineProperty(globalThis, "console", { get: () => process }); console',
  'class A extends Array { static get [Symbol.species]() { return process } } new A(1).map(String)',
  'JSON.stringify({ toJSON() { return process } })',
  '`$\u007b{ toString() { return process.env } }}`',
  'Object.getPrototypeOf(function* () {}).constructor("return process")().next()',
  'await Object.getPrototypeOf(async function* () {}).constructor("return process")().next()',
  'with ({ get x() { return process } }) x',
  'await { then(resolve) { resolve(process) } }',
  'throw { get message() { throw process } }',
  'throw new Proxy({}, { get() { throw process }, getPrototypeOf() { throw process } })',
  'throw null',
  'throw undefined',
  'throw Symbol("x")',
  'throw { toString: null, valueOf: null }',
  'import.meta.url',
  'return 1',
  'yield 1',
  '#!/bin/sh\nid',
  '\0',
  '}) ; (() => { process',
  '*/ process /*',
]
