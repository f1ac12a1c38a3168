/** `run_cmd`: in ordinary use, and in hostile hands. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer, type Socket } from 'node:net'
import { delimiter, dirname, join } from 'node:path'
import t, { type Test } from 'tap'
import { DramatisError } from '../../src/shared/errors.ts'
import { confineArguments, findProgram, safePath } from '../../src/tools/command.ts'
import { BoundedOutput } from '../../src/tools/options.ts'
import { workspace } from '../../src/tools/workspace.ts'
import { call } from './calls.ts'
import { notPrograms, outwardArguments, shellPayloads } from './hostile-commands.ts'
import { pathsTo, pathsToWrite } from './hostile-paths.ts'
import { makePlace, plantLinks } from './outside.ts'

// `run_cmd` in ordinary use: what a command gets, what is said of it, and that nothing of it stays.

t.test('says the exit code and what was printed on both streams', async (t) => {
  const { run } = place(t)
  t.equal(await run('console.log("out")'), 'exit code 0\nout\n')
  t.equal(await run('console.error("err"); process.exitCode = 3'), 'exit code 3\nerr\n')
  t.equal(await run(''), 'exit code 0\n(no output)')
  t.equal(await run('process.kill(process.pid, "SIGSEGV")'), 'ended by SIGSEGV\n(no output)')
})

t.test('runs in the workspace or a folder of it, with nothing on its standard input', async (t) => {
  const { root, run } = place(t)
  const where = 'console.log(process.cwd()); process.stdin.on("data", console.log).on("end", () => console.log("end"))'
  t.equal(await run(where), `exit code 0\n${root}\nend\n`)
  t.equal(await run(where, { cwd: 'src' }), `exit code 0\n${join(root, 'src')}\nend\n`)
})

t.test('a script of the workspace gets its arguments one by one', async (t) => {
  const { root, tool } = place(t)
  writeFileSync(join(root, 'show.js'), 'console.log(JSON.stringify(process.argv.slice(2)))')
  const args = ['a b', '', '--x=1', 'ü', `${root}/src`, 'tests/test_x.py::test_y', 'https://pypi.org/simple', 'a/b..c']
  const text = await call(tool, { command: 'node', args: ['show.js', ...args] })
  t.equal(text, `exit code 0\n${JSON.stringify(args)}\n`)
})

t.test("sees nothing of the host's environment but what finds programs", async (t) => {
  process.env.DRAMATIS_TEST_KEY = 'sk-secret'
  t.teardown(() => delete process.env.DRAMATIS_TEST_KEY)
  const { root, run } = place(t)
  const text = await run('console.log(JSON.stringify({ ...process.env, PATH: "-" }))')
  const { TMPDIR = '/dramatis-command-', ...others } = JSON.parse(String(text).slice('exit code 0\n'.length))
  t.same(others, { PATH: '-', HOME: root, LANG: 'C.UTF-8' })
  t.match(TMPDIR, /\/dramatis-command-/, 'a folder of its own, where it can write nowhere else')
})

t.test('keeps the first and the last part of a long output', async (t) => {
  const { run } = place(t)
  const text = String(await run('process.stdout.write("begin" + "x".repeat(1e6) + "end")'))
  t.match(text, /^exit code 0\nbeginx+\n\[\.\.\. 967240 bytes left out \.\.\.\]\nx+end$/)
  t.equal(text.length, 'exit code 0\n'.length + '\n[... 967240 bytes left out ...]\n'.length + 32 * 1024)
})

t.test('bounded output is the same however it comes in pieces', async (t) => {
  const bytes = Buffer.from(Array.from({ length: 1_000 }, (_, i) => 97 + (i % 26)))
  for (const size of [1, 3, 7, 64, 99, 100, 101, 999, 1_000]) {
    const output = new BoundedOutput(100)
    for (let at = 0; at < bytes.length; at += size) output.add(bytes.subarray(at, at + size))
    t.equal(output.toString(), `${bytes.subarray(0, 100)}\n[... 800 bytes left out ...]\n${bytes.subarray(900)}`)
  }
  const short = new BoundedOutput(100)
  short.add(bytes.subarray(0, 200))
  t.equal(short.toString(), bytes.subarray(0, 200).toString())
})

t.test('a command that is not allowed, or not there, is refused with words', async (t) => {
  const { tool } = place(t)
  await t.rejects(call(tool, { command: 'rm' }), {
    code: 'TOOL_INPUT',
    message: /"rm" is not allowed. Allowed: node;/,
  })
  const [, , , other] = workspace({ root: makePlace(t).root, allow: ['dramatis-is-not-there'] })
  await t.rejects(call(other!, { command: 'dramatis-is-not-there' }), {
    code: 'TOOL_FAILED',
    message: /not installed/,
  })
})

t.test('an allow-list of anything but plain names is refused', async (t) => {
  for (const entry of ['/usr/bin/node', './node', '', 'a b', 'a;b', '..', '-x', 'a\n', 5, null, 'C:\\node']) {
    const options = { root: 'x', allow: [entry] as string[] }
    t.throws(() => workspace(options), { code: 'CONFIGURATION', details: { path: 'allow' } }, String(entry))
  }
  for (const timeoutMs of [0, -1, 1.5, Number.NaN, 3_600_001]) {
    t.throws(() => workspace({ root: 'x', timeoutMs }), { code: 'CONFIGURATION', details: { path: 'timeoutMs' } })
  }
  for (const [options, path] of [
    [{ root: 'x', alow: [] }, 'alow'],
    [undefined, 'options'],
  ] as const)
    t.throws(() => workspace(options as never), { code: 'CONFIGURATION', details: { path } })
})

t.test('a command that is too late is killed, and its output is told', async (t) => {
  const { root } = makePlace(t)
  const [, , , tool] = workspace({ root, allow: ['node'], timeoutMs: 1 })
  const late = call(tool!, { command: 'node', args: ['-e', 'setInterval(() => {}, 1000)'] })
  await t.rejects(late, {
    code: 'TOOL_TIMEOUT',
    message: /"node" did not end within 1 ms and was killed. It printed nothing/,
  })
})

t.test('what a command leaves in its group ends with it', async (t) => {
  const { run, visitors } = await meeting(t)
  const child = 'require("child_process").spawn(process.execPath, ["visit.cjs"], { stdio: "ignore" })'
  const done = run(`${child}; ${visit} .on("data", () => process.exit(0))`)
  const [first, second] = await visitors(2)
  first!.write('go')
  second!.write('go')
  t.match(await done, /^exit code 0/)
  await Promise.all([gone(first!), gone(second!)])
})

t.test('an aborted command is killed with its children, though they refuse to end', async (t) => {
  const { run, visitors } = await meeting(t)
  const control = new AbortController()
  const stubborn = 'process.on("SIGTERM", () => {})'
  const child = `require("child_process").spawn(process.execPath, ["-e", ${JSON.stringify(`${stubborn}; ${visit}`)}])`
  const done = run(`${stubborn}; ${child}; ${visit}`, {}, control.signal)
  const sockets = await visitors(2)
  control.abort(new Error('enough'))
  await t.rejects(done, { message: 'enough' })
  await Promise.all(sockets.map(gone))
})

t.test('a program that has left its group does not keep the call waiting', async (t) => {
  const { run, visitors } = await meeting(t)
  const away = 'spawn(process.execPath, ["visit.cjs"], { detached: true, stdio: "inherit" }).unref()'
  const done = run(`require("child_process").${away}; ${visit} .on("data", () => process.exit(0))`)
  for (const socket of await visitors(2)) socket.write('go')
  t.match(await done, /^exit code 0/)
})

t.test('a host that exits leaves no command behind', async (t) => {
  const { root, visitors } = await meeting(t)
  const tools = new URL('../../src/tools/index.js', import.meta.url).href
  const host = `import { workspace } from ${JSON.stringify(tools)}
    const tool = workspace({ root: ${JSON.stringify(root)}, allow: ['node'] })[3]
    tool.run({ command: 'node', args: ['visit.cjs'], cwd: '.' }, { signal: new AbortController().signal })
    process.stdin.once('data', () => process.exit(0))`
  const child = spawn(process.execPath, ['--input-type=module', '-e', host], { stdio: ['pipe', 'inherit', 'inherit'] })
  const [visitor] = await visitors(1)
  child.stdin.write('exit')
  await gone(visitor!)
})

/** A program that connects to the test and stays. */
const visit = 'require("net").connect("socket")'

function place(t: Test) {
  const { root } = makePlace(t)
  const [, , , tool] = workspace({ root, allow: ['node'] })
  const run = (code: string, more: object = {}, signal?: AbortSignal) =>
    call(tool!, { command: 'node', args: ['-e', code], ...more }, signal)
  return { root, tool: tool!, run }
}

/** Programs that run come and meet the test at a socket of the workspace: so it knows that they live, and when they do not. */
async function meeting(t: Test) {
  const { root, run } = place(t)
  writeFileSync(join(root, 'visit.cjs'), visit)
  const here: Socket[] = []
  const server = createServer((socket) => {
    socket.on('error', () => {}) // it was killed
    here.push(socket)
    server.emit('visitor')
  })
  const back = process.cwd()
  process.chdir(root) // a socket's path may not be long
  server.listen('socket')
  await once(server, 'listening')
  process.chdir(back)
  t.teardown(() => {
    for (const socket of here) socket.destroy()
    server.close()
  })
  const visitors = async (count: number) => {
    while (here.length < count) await once(server, 'visitor')
    return here
  }
  return { root, run, visitors }
}

function gone(socket: Socket): Promise<unknown> | undefined {
  if (socket.closed) return undefined
  socket.resume()
  return new Promise((resolve) => socket.once('close', resolve)) // however it ends
}

// Hostile commands, arguments, folders and PATHs: nothing runs that is not meant, and nothing is pointed outside.

t.test('what a shell would act on stays an argument, or is refused', async (t) => {
  const { place, tool } = desk(t)
  const payloads = shellPayloads(join(place.outside, 'ran'))
  t.ok(payloads.length >= 200, `${payloads.length} payloads`)
  const around = place.around()
  const kept = []
  for (const payload of payloads) {
    if ((await code(confineArguments('node', [payload], place.root, place.root))) === 'done') kept.push(payload)
  }
  t.ok(kept.length >= 150, `${kept.length} are passed on`)
  writeFileSync(join(place.root, 'show.js'), 'console.log(JSON.stringify(process.argv.slice(2)))')
  const text = await call(tool, { command: 'node', args: ['show.js', ...kept] })
  t.equal(text, `exit code 0\n${JSON.stringify(kept)}\n`)
  t.equal(place.around(), around)
})

t.test('no other program runs, whatever the command looks like', async (t) => {
  const { place, tool, program } = desk(t)
  program(place.root, 'node')
  mkdirSync(join(place.root, 'bin'))
  program(join(place.root, 'bin'), 'node')
  const around = place.around()
  const ran = []
  for (const command of notPrograms(join(place.outside, 'ran'))) {
    if ((await code(call(tool, { command, args: ['--version'] }))) !== 'TOOL_INPUT') ran.push(command)
  }
  t.same(ran, [])
  t.equal(place.around(), around)
})

t.test('no argument points outside', async (t) => {
  const { place, tool } = desk(t)
  const script = `require('fs').writeFileSync(${JSON.stringify(join(place.outside, 'ran'))}, '')`
  writeFileSync(join(place.outside, 'secret.js'), script)
  symlinkSync('../outside/secret.js', join(place.root, 'link.js'))
  symlinkSync('../outside', join(place.root, 'link'))
  symlinkSync('../outside/made', join(place.root, 'dangling'))
  mkdirSync(join(place.root, 'http:'))
  const secret = join(place.outside, 'secret.js')
  const outside = [
    secret,
    '../outside/secret.js',
    'src/../../outside/secret.js',
    'link.js',
    'link/secret.js',
    './link',
    'dangling',
    'link/new/made',
  ]
  const args = [...outwardArguments(outside), ...pathsTo(secret).filter((path) => path.startsWith('/'))]
  t.ok(args.length >= 200, `${args.length} arguments`)
  const around = place.around()
  const passed = []
  for (const arg of args) {
    if ((await code(call(tool, { command: 'node', args: [arg] }))) !== 'TOOL_INPUT') passed.push(arg)
  }
  t.same(passed, [])
  t.equal(place.around(), around)
})

t.test('no folder outside is the working folder', async (t) => {
  const { place, tool } = desk(t)
  const { toCanaries, toMachine } = plantLinks(place)
  const ran = []
  const there = 'require("fs").existsSync("secret.txt") && console.log("out")'
  for (const cwd of [...toCanaries, ...toMachine, ...pathsToWrite, ...place.canaries.map(dirname), '/', '/tmp']) {
    const how = await code(call(tool, { command: 'node', args: ['-e', there], cwd }))
    if (how === 'done' && !['.', './', './.'].includes(cwd)) ran.push(cwd)
  }
  t.same(ran, [])
})

t.test('a PATH that leads into the workspace finds nothing there', async (t) => {
  const { place, program } = desk(t)
  const { root, outside } = place
  mkdirSync(join(root, 'bin'))
  program(join(root, 'bin'), 'tool')
  program(root, 'tool')
  mkdirSync(join(outside, 'linked'))
  symlinkSync(join(root, 'bin', 'tool'), join(outside, 'linked', 'tool'))
  symlinkSync(join(root, 'bin'), join(outside, 'bin'))
  const hostile = [
    '',
    '.',
    './bin',
    'bin',
    '..',
    '../work',
    root,
    join(root, 'bin'),
    `${root}/`,
    `${root}/../work/bin`,
    join(outside, 'bin'),
    `${outside}/bin/.`,
    '~',
    '~/bin',
    '$HOME/bin',
    'work',
  ]
  const folders = await safePath([...hostile, join(outside, 'linked')].join(delimiter), root)
  t.same(folders, [join(outside, 'linked')])
  t.equal(await findProgram('tool', folders, root), undefined)
  mkdirSync(join(outside, 'good', 'tool'), { recursive: true })
  mkdirSync(join(outside, 'better'))
  writeFileSync(join(outside, 'better', 'other'), '') // no permission to run it
  program(join(outside, 'better'), 'tool')
  const better = await safePath(['good', 'better'].map((name) => join(outside, name)).join(delimiter), root)
  t.equal(await findProgram('tool', better, root), join(outside, 'better', 'tool'))
  t.equal(await findProgram('other', better, root), undefined)
})

t.test("the workspace's own programs are not on the command's PATH", async (t) => {
  const { place, tool } = desk(t)
  const before = process.env.PATH
  t.teardown(() => {
    process.env.PATH = before
  })
  process.env.PATH = [place.root, '.', '', 'bin', before].join(delimiter)
  const text = String(await call(tool, { command: 'node', args: ['-p', 'process.env.PATH'] }))
  const folders = text.trim().split('\n')[1]!.split(delimiter)
  t.same(
    folders.filter((folder) => ['', '.', 'bin', place.root].includes(folder)),
    [],
  )
})

t.test('arguments that are no list of strings, too many or too long, are refused', async (t) => {
  const { tool } = desk(t)
  const many = Array.from({ length: 257 }, () => 'x')
  const long = Array.from({ length: 5 }, () => 'x'.repeat(32_768))
  for (const args of [
    '-v',
    [5],
    [null],
    [['-v']],
    { 0: '-v', length: 1 },
    many,
    ['x'.repeat(32_769)],
    long,
    ['a\0b'],
  ]) {
    await t.rejects(call(tool, { command: 'node', args }), { code: 'TOOL_INPUT' })
  }
  for (const more of [{ shell: true }, { env: { A: '1' } }, { uid: 0 }, { timeoutMs: 1e9 }, { stdio: 'inherit' }]) {
    await t.rejects(call(tool, { command: 'node', args: ['-v'], ...more }), { code: 'TOOL_INPUT' })
  }
})

/** A workspace whose allow-list is `node`, and what makes a program that leaves a mark when it runs. */
function desk(t: Test) {
  const place = makePlace(t)
  const [, , , tool] = workspace({ root: place.root, allow: ['node'] })
  const program = (folder: string, name: string) => {
    writeFileSync(join(folder, name), `#!/bin/sh\necho ran > ${join(place.outside, 'ran')}\n`)
    chmodSync(join(folder, name), 0o755)
    t.match(readFileSync(join(folder, name), 'utf8'), /ran/)
  }
  return { place, tool: tool!, program }
}

async function code(promise: Promise<unknown>): Promise<string> {
  try {
    await promise
    return 'done'
  } catch (error) {
    return error instanceof DramatisError ? error.code : String(error)
  }
}
