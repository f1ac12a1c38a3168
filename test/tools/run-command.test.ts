/** `run_command`: in ordinary use, with hostile commands, and confined to its folder. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import t, { type Test } from 'tap'
import { DramatisError } from '../../src/shared/errors.ts'
import { confineArguments, findProgram, landlock, safePath } from '../../src/tools/command.ts'
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

// Programs that `run_cmd` starts write in the workspace alone, whatever their arguments, their input and their files
// say.

const folders = await safePath(process.env.PATH ?? '', '/nowhere')
const skip = (await landlock(folders, '/nowhere')) ? false : 'this system has no Landlock, or no perl'

t.test('a script writes in the workspace and in a temporary folder that is gone afterwards', { skip }, async (t) => {
  const { place, run } = confined(t)
  const temporary = String(
    await run(`
    fs.writeFileSync('made', '1'); fs.appendFileSync('made', '2'); fs.truncateSync('made', 1)
    fs.mkdirSync('folder'); fs.renameSync('made', 'folder/moved'); fs.symlinkSync('folder', 'link')
    fs.linkSync('folder/moved', 'again'); fs.unlinkSync('again'); fs.writeFileSync('/dev/null', 'x')
    const at = fs.mkdtempSync(os.tmpdir() + '/x'); fs.writeFileSync(at + '/y', 'z'); console.log(at)`),
  )
  t.match(temporary, /^exit code 0\n\S+\n$/)
  t.equal(readFileSync(join(place.root, 'folder/moved'), 'utf8'), '1')
  t.notOk(existsSync(temporary.split('\n')[1]!))
  t.same(
    readdirSync(tmpdir()).filter((name) => temporary.includes(`/${name}/`)),
    [],
  )
})

t.test('a script and what it starts change nothing outside', { skip }, async (t) => {
  const { place, run } = confined(t)
  const acts = [
    `fs.writeFileSync(outside + '/new', '1')`,
    `fs.appendFileSync(outside + '/secret.txt', '1')`,
    `fs.truncateSync(outside + '/secret.txt')`,
    `fs.openSync(outside + '/secret.txt', 'r+')`,
    `fs.unlinkSync(outside + '/secret.txt')`,
    `fs.rmSync(outside + '/deep', { recursive: true })`,
    `fs.mkdirSync(outside + '/folder')`,
    `fs.symlinkSync('x', outside + '/link')`,
    `fs.linkSync('mine', outside + '/link')`,
    `fs.linkSync(outside + '/secret.txt', 'theirs')`,
    `fs.renameSync('mine', outside + '/moved')`,
    `fs.renameSync(outside + '/secret.txt', 'moved')`,
    `fs.writeFileSync('out/new', '1')`,
    `fs.writeFileSync('/proc/self/cwd/../outside/new', '1')`,
    `child.execFileSync(process.execPath, ['-e', 'fs.writeFileSync(' + JSON.stringify(outside + '/new') + ', "1")'], { stdio: 'ignore' })`,
    `child.execSync('cat mine > ' + outside + '/new', { stdio: 'ignore' })`,
  ]
  const around = place.around()
  const text = await run(`const outside = ${JSON.stringify(place.outside)}, child = require('child_process')
    const passed = ${JSON.stringify(acts)}.filter((act) => { try { eval(act); return true } catch { return false } })
    console.log(JSON.stringify(passed))`)
  t.equal(text, 'exit code 0\n[]\n')
  t.equal(place.around(), around)
})

t.test('a folder of the option writable can be written, too, and has to be there', { skip }, async (t) => {
  const { place } = confined(t)
  const write = { command: 'node', args: ['-e', `fs.writeFileSync(${JSON.stringify(`${place.outside}/new`)}, '1')`] }
  const tool = (writable: string[]) => workspace({ root: place.root, allow: ['node'], writable })[3]!
  t.equal(await call(tool([place.outside]), write), 'exit code 0\n(no output)')
  await t.rejects(call(tool([`${place.outside}/none`]), write), { code: 'TOOL_FAILED', message: /option writable/ })
  for (const writable of ['x', [5], ['']] as string[][])
    t.throws(() => tool(writable), { code: 'CONFIGURATION', details: { path: 'writable' } })
})

t.test('where perl is not there, a command runs as it is', async (t) => {
  const { place, run } = confined(t)
  const before = process.env.PATH
  t.teardown(() => {
    process.env.PATH = before
  })
  process.env.PATH = `${place.outside}/bin`
  mkdirSync(process.env.PATH)
  symlinkSync(process.execPath, join(process.env.PATH, 'node'))
  t.equal(await landlock([process.env.PATH], place.root), undefined)
  t.equal(await run('console.log(process.env.TMPDIR)'), 'exit code 0\nundefined\n')
})

/** Programs with arguments that write, or lead, outside; `o` is the folder outside. Files of the workspace: see `desk`. */
const outward: Record<string, (o: string) => string[][]> = {
  sort: (o) => [
    ...['-uo', '-ruo', '-o', '-unro'].map((group) => [`${group}${o}/new`, 'mine']),
    ['-uo../outside/new', 'mine'],
    ['-uoout/new', 'mine'],
    ['-o', `${o}/new`, 'mine'],
    [`--output=${o}/new`, 'mine'],
    ['--files0-from', 'names'],
    [`-uT${o}`, 'mine'],
  ],
  tar: (o) => [
    [`-cf${o}/new`, 'mine'],
    ['cf', `${o}/new`, 'mine'],
    ['-xPf', 'absolute.tar'],
    ['-xC..', '-f', 'absolute.tar'],
    [`-xC${o}`, '-f', 'absolute.tar'],
    ['-cf', 'x.tar', 'mine', '--checkpoint=1', `--checkpoint-action=exec=touch ${o}/new`],
    ['-cf', 'x.tar', '-I', `touch ${o}/new`, 'mine'],
  ],
  git: (o) => [
    [`-C${o}`, 'init'],
    ['-C', o, 'init'],
    [`--git-dir=${o}/.git`, 'init'],
    ['init', o],
    ['-c', `alias.x=!touch ${o}/new`, 'x'],
    ['clone', '-q', '.', `${o}/clone`],
  ],
  sed: (o) => [
    ['-n', `w ${o}/new`, 'mine'],
    [`-ne`, `w${o}/new`, 'mine'],
    [`-new${o}/new`, 'mine'],
    ['-i.bak', 's/a/b/', `${o}/secret.txt`],
  ],
  env: (o) => [
    [`-C${o}`, 'touch', 'new'],
    ['touch', `${o}/new`],
    [`-Stouch ${o}/new`],
    ['sh', '-c', `echo x > ${o}/new`],
  ],
  cp: (o) => [
    [`-ft${o}`, 'mine'],
    ['-t', o, 'mine'],
    ['mine', 'out/new'],
  ],
  dd: (o) => [['if=mine', `of=${o}/new`]],
  find: (o) => [
    ['.', '-fprint', `${o}/new`],
    ['.', '-exec', 'touch', `${o}/new`, ';'],
  ],
  python: (o) => [
    [`-c`, `open(${JSON.stringify(`${o}/new`)}, "w")`],
    ['write.py'],
    ['-m', 'pip', 'download', '-rrequirements.txt', `-qd${o}`],
  ],
  pip: (o) => [
    ['install', `-r${o}/secret.txt`],
    ['install', `-qr${o}/secret.txt`],
    ['install', '-r', 'requirements.txt'],
    ['install', '--no-index', `-qt${o}`, './package'],
    ['list', '--log', `${o}/new`],
    ['list'],
  ],
}

for (const [program, calls] of Object.entries(outward)) {
  const isThere = await findProgram(program, folders, '/nowhere')
  t.test(`${program}: nothing is written outside`, { skip: skip || (!isThere && 'it is not there') }, async (t) => {
    const { place, write } = confined(t)
    const { outside, root } = place
    const tool = workspace({ root, allow: [program] })[3]!
    write('requirements.txt', `--find-links file://${outside}\n-r ${outside}/secret.txt\n`)
    write('write.py', `open(${JSON.stringify(`${outside}/new`)}, "w")\n`)
    write('.config/pip/pip.conf', `[global]\nlog = ${outside}/new\ndisable-pip-version-check = true\n`)
    write('.gitconfig', `[core]\nhooksPath = ${root}/hooks\n`)
    const around = place.around()
    for (const args of calls(outside)) {
      await call(tool, { command: program, args }).catch((error: Error) => t.match(error, { code: 'TOOL_INPUT' }))
      t.equal(place.around(), around, args.join(' '))
    }
  })
}

t.test('what is attached to a group of short options is taken for a path where it may be one', async (t) => {
  const { place } = confined(t)
  const tool = workspace({ root: place.root, allow: ['node'] })[3]!
  mkdirSync(join(place.root, 'o'))
  const o = place.outside
  const values = [
    `${o}/x`,
    '/',
    '~',
    '~/x',
    '..',
    '../x',
    'src/../..',
    'out',
    'out/x',
    `x=${o}`,
    `@${o}/x`,
    `${'x'.repeat(300)}/x`,
  ]
  const groups = ['-Wl,-o', '--x=-o', '-o', '-uo', '-zxvfo', '-1o', `-${'u'.repeat(400)}o`, '-@', '-#o', '-éo']
  for (const arg of groups.flatMap((group) => values.map((value) => `${group}${value}`)))
    await t.rejects(call(tool, { command: 'node', args: [arg] }), { code: 'TOOL_INPUT' }, arg.slice(-40))
  for (const arg of [
    '-v',
    '-rA',
    '-osrc',
    '-uosrc',
    '-j4',
    '-O2',
    '-DX=src/main.py',
    '-1',
    '-',
    '--',
    '--x=src/main.py',
  ])
    t.match(await call(tool, { command: 'node', args: ['-p', '1', '--', arg] }), /^exit code 0/, arg)
})

function confined(t: Test) {
  const place = makePlace(t)
  const write = (name: string, text: string) => {
    mkdirSync(join(place.root, name, '..'), { recursive: true })
    writeFileSync(join(place.root, name), text)
  }
  write('mine', 'a\n')
  write('names', `${place.outside}/secret.txt`)
  symlinkSync(place.outside, join(place.root, 'out'))
  const tool = workspace({ root: place.root, allow: ['node'] })[3]!
  return { place, write, run: (code: string) => call(tool, { command: 'node', args: ['-e', code] }) }
}
