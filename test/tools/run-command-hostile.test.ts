/** Hostile commands, arguments, folders and PATHs: nothing runs that is not meant, and nothing is pointed outside. */
import { chmodSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import type { Test } from 'tap'
import t from 'tap'
import { DramatisError } from '../../src/shared/errors.ts'
import { confineArguments, findProgram, safePath } from '../../src/tools/command.ts'
import { workspace } from '../../src/tools/workspace.ts'
import { call } from './calls.ts'
import { notPrograms, outwardArguments, shellPayloads } from './hostile-commands.ts'
import { pathsTo, pathsToWrite } from './hostile-paths.ts'
import { makePlace, plantLinks } from './outside.ts'

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
