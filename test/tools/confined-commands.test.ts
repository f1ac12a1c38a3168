/** Programs that `run_cmd` starts write in the workspace alone, whatever their arguments, their input and their files say. */
import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import t from 'tap'
import { findProgram, landlock, safePath } from '../../src/tools/command.ts'
import { workspace } from '../../src/tools/workspace.ts'
import { call } from './calls.ts'
import { makePlace } from './outside.ts'

const folders = await safePath(process.env.PATH ?? '', '/nowhere')
const skip = (await landlock(folders, '/nowhere')) ? false : 'this system has no Landlock, or no perl'

t.test('a script writes in the workspace and in a temporary folder that is gone afterwards', { skip }, async (t) => {
  const { place, run } = desk(t)
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
  const { place, run } = desk(t)
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
  const { place } = desk(t)
  const write = { command: 'node', args: ['-e', `fs.writeFileSync(${JSON.stringify(`${place.outside}/new`)}, '1')`] }
  const tool = (writable: string[]) => workspace({ root: place.root, allow: ['node'], writable })[3]!
  t.equal(await call(tool([place.outside]), write), 'exit code 0\n(no output)')
  await t.rejects(call(tool([`${place.outside}/none`]), write), { code: 'TOOL_FAILED', message: /option writable/ })
  for (const writable of ['x', [5], ['']] as string[][])
    t.throws(() => tool(writable), { code: 'CONFIGURATION', details: { path: 'writable' } })
})

t.test('where perl is not there, a command runs as it is', async (t) => {
  const { place, run } = desk(t)
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
    const { place, write } = desk(t)
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
  const { place } = desk(t)
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

function desk(t: Test) {
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
