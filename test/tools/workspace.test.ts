/** The file tools: in ordinary use, at their bounds, and with hostile paths. */
import {
  chmodSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import t, { type Test } from 'tap'
import { DramatisError } from '../../src/shared/errors.ts'
import { LARGEST_READ, LARGEST_WRITE, listFolder, MOST_ENTRIES, readText, writeText } from '../../src/tools/files.ts'
import { pathNames, Root } from '../../src/tools/folder.ts'
import { readFile, runCommand, workspace, writeFile } from '../../src/tools/workspace.ts'
import { pluck } from '../kit/lists.ts'
import { call } from './calls.ts'
import { pathsTo, pathsToRead, pathsToWrite } from './hostile-paths.ts'
import { makePlace, type Place, plantLinks, SECRET } from './outside.ts'

// The file tools in ordinary use, at their bounds, and while somebody exchanges folders under them.

t.test('what is written is read and listed', async (t) => {
  const { write, read, list } = tools(t)
  await call(write, { path: 'src/deep/main.py', content: 'print("ü")\n' })
  await call(write, { path: './src//notes.txt', content: '' })
  t.equal(await call(read, { path: 'src/deep/main.py' }), 'print("ü")\n')
  t.equal(await call(read, { path: 'src/notes.txt' }), '')
  t.same(await call(list, { path: 'src' }), {
    entries: [
      { name: 'deep', type: 'folder' },
      { name: 'notes.txt', type: 'file', size: 0 },
    ],
    more: false,
  })
  t.same(await call(list, {}), { entries: [{ name: 'src', type: 'folder' }], more: false })
})

t.test('an absolute path in the workspace is one of it', async (t) => {
  const { root, write, read } = tools(t)
  await call(write, { path: `${root}/a.txt`, content: 'a' })
  t.equal(await call(read, { path: 'a.txt' }), 'a')
})

t.test('the root is made when it is first used', async (t) => {
  const base = folder(t)
  const [write] = workspace({ root: join(base, 'new', 'work') })
  t.same(readdirSync(base), [])
  await call(write!, { path: 'a.txt', content: 'a' })
  t.equal(readFileSync(join(base, 'new', 'work', 'a.txt'), 'utf8'), 'a')
})

t.test('a file that is written again keeps its permissions, and no draft is left', async (t) => {
  const { root, write } = tools(t)
  await call(write, { path: 'run.sh', content: 'one' })
  chmodSync(join(root, 'run.sh'), 0o751)
  await call(write, { path: 'run.sh', content: 'two' })
  t.equal(statSync(join(root, 'run.sh')).mode & 0o7777, 0o751)
  t.equal(readFileSync(join(root, 'run.sh'), 'utf8'), 'two')
  t.same(readdirSync(root), ['run.sh'])
})

t.test('what fails says why in words, and leaves nothing behind', async (t) => {
  const { root, write, read, list } = tools(t)
  mkdirSync(join(root, 'src'))
  writeFileSync(join(root, 'file'), 'x')
  const failed = (message: RegExp) => ({ code: 'TOOL_FAILED', message })
  await t.rejects(call(read, { path: 'none.txt' }), failed(/"none.txt" cannot be used: there is no such file/))
  await t.rejects(call(read, { path: 'src' }), failed(/is a folder/))
  await t.rejects(call(write, { path: 'src', content: '' }), failed(/is a folder/))
  await t.rejects(call(write, { path: 'file/x', content: '' }), failed(/a part of it is no folder/))
  await t.rejects(call(list, { path: 'file' }), failed(/no folder/))
  await t.rejects(call(read, { path: '.' }), { code: 'TOOL_INPUT', message: /is the workspace itself/ })
  await t.rejects(call(write, { path: 'a.txt', content: '', mode: 1 }), { code: 'TOOL_INPUT' })
  await t.rejects(call(read, { path: '' }), { code: 'TOOL_INPUT' })
  await t.rejects(call(read, { path: ['a'] }), { code: 'TOOL_INPUT' })
  t.same(readdirSync(root), ['file', 'src'])
})

t.test('a binary file is reported as one', async (t) => {
  const { root, read } = tools(t)
  writeFileSync(join(root, 'nul'), 'a\0b')
  writeFileSync(join(root, 'latin1'), Buffer.from([0x61, 0xfc, 0x62]))
  await t.rejects(call(read, { path: 'nul' }), { code: 'TOOL_FAILED', message: /"nul" is binary \(3 bytes\)/ })
  await t.rejects(call(read, { path: 'latin1' }), { code: 'TOOL_FAILED', message: /"latin1" is binary \(3 bytes\)/ })
})

t.test('reads and writes up to their limits and no further', async (t) => {
  const { root, read, write } = tools(t)
  writeFileSync(join(root, 'full'), 'x'.repeat(LARGEST_READ))
  writeFileSync(join(root, 'over'), 'x'.repeat(LARGEST_READ + 1))
  t.equal(String(await call(read, { path: 'full' })).length, LARGEST_READ)
  await t.rejects(call(read, { path: 'over' }), { code: 'TOOL_FAILED', message: /262145 bytes/ })
  await call(write, { path: 'large', content: 'x'.repeat(LARGEST_WRITE) })
  await t.rejects(call(write, { path: 'larger', content: 'x'.repeat(LARGEST_WRITE + 1) }), { code: 'TOOL_INPUT' })
  await t.rejects(call(write, { path: 'wide', content: 'ü'.repeat(LARGEST_WRITE / 2 + 1) }), { code: 'TOOL_FAILED' })
  t.same(readdirSync(root), ['full', 'large', 'over'])
})

t.test('a folder is listed up to a limit, and says that there is more', async (t) => {
  const { root, list } = tools(t)
  for (let i = 0; i < MOST_ENTRIES; i++) writeFileSync(join(root, `f${i}`), '')
  t.equal(sizeOf(await call(list, {})), `${MOST_ENTRIES} false`)
  writeFileSync(join(root, 'one-more'), '')
  t.equal(sizeOf(await call(list, {})), `${MOST_ENTRIES} true`)
})

t.test('a socket is no file', async (t) => {
  const { root, read, write, list } = tools(t)
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(join(root, 'socket'), resolve))
  t.teardown(() => server.close())
  await t.rejects(call(read, { path: 'socket' }), { code: 'TOOL_FAILED', message: /is no file/ })
  await t.rejects(call(write, { path: 'socket', content: '' }), { code: 'TOOL_FAILED', message: /is no file/ })
  t.match(await call(list, {}), { entries: [{ name: 'socket', type: 'other' }] })
})

t.test('an aborted call does nothing', async (t) => {
  const { root, read, write, list } = tools(t)
  writeFileSync(join(root, 'a.txt'), 'a')
  const gone = AbortSignal.abort(new Error('gone'))
  await t.rejects(call(read, { path: 'a.txt' }, gone), { message: 'gone' })
  await t.rejects(call(write, { path: 'b.txt', content: 'b' }, gone), { message: 'gone' })
  await t.rejects(call(list, {}, gone), { message: 'gone' })
  t.same(readdirSync(root), ['a.txt'])
})

// the way of Linux is safe at every moment; the other one has a moment in which an empty draft can be made elsewhere
if (process.platform === 'linux') {
  t.test('folders that become links and back while they are used lead nowhere else', async (t) => {
    const place = makePlace(t)
    mkdirSync(join(place.root, 'a', 'b'), { recursive: true })
    mkdirSync(join(place.outside, 'b'))
    writeFileSync(join(place.root, 'a', 'b', 'secret.txt'), 'mine')
    writeFileSync(join(place.outside, 'b', 'secret.txt'), SECRET)
    const swapper = new Worker(swap, { eval: true, workerData: { root: place.root, outside: place.outside } })
    t.teardown(() => swapper.terminate())
    await new Promise((resolve) => swapper.once('message', resolve))
    const root = new Root(place.root)
    const { signal } = new AbortController()
    const seen = new Map<string, number>()
    const note = (what: string) => void seen.set(what, (seen.get(what) ?? 0) + 1)
    for (let i = 0; i < 1_000; i++) {
      note(await readText(root, 'a/b/secret.txt', signal).catch((error) => error.code))
      note(
        await writeText(root, `a/b/taken-${i % 10}`, 'taken', signal).then(
          () => 'written',
          (error) => error.code,
        ),
      )
    }
    await swapper.terminate()
    t.same(
      [...seen.keys()].filter((what) => !['mine', 'written', 'TOOL_FAILED'].includes(what)),
      [],
    )
    t.same(readdirSync(join(place.outside, 'b')), ['secret.txt'])
    t.ok(seen.get('written'))
  })
}

t.test('a root that cannot be one is refused at once', async (t) => {
  for (const root of ['', '/', '/..', 'a\0b', undefined, 5, null, {}]) {
    const options = { root } as { root: string }
    t.throws(() => workspace(options), { code: 'CONFIGURATION', details: { path: 'root' } })
  }
})

t.test('the single tools have the names of those of a workspace', async (t) => {
  t.same(pluck([readFile, writeFile, runCommand], 'name'), ['read_file', 'write_file', 'run_cmd'])
  t.same(pluck(workspace({ root: 'x' }), 'name'), ['write_file', 'read_file', 'list_dir', 'run_cmd'])
})

const swap = `
  const { parentPort, workerData: { root, outside } } = require('node:worker_threads')
  const { renameSync, symlinkSync, unlinkSync } = require('node:fs')
  const [folder, kept] = [root + '/a', root + '/kept']
  const attempt = (task, otherwise) => {
    try {
      task()
    } catch {
      otherwise?.() // a write has made the folder meanwhile
    }
  }
  let count = 0
  const clear = () => attempt(() => unlinkSync(folder), () => renameSync(folder, root + '/old-' + count++))
  parentPort.postMessage('ready')
  for (;;) {
    renameSync(folder, kept)
    attempt(() => symlinkSync(outside, folder))
    clear()
    attempt(() => renameSync(kept, folder), () => {
      clear()
      attempt(() => renameSync(kept, folder), () => process.exit())
    })
  }
`

function folder(t: Test): string {
  const path = realpathSync(mkdtempSync(join(tmpdir(), 'dramatis-files-')))
  t.teardown(() => rmSync(path, { recursive: true, force: true }))
  return path
}

function tools(t: Test) {
  const root = folder(t)
  const [write, read, list] = workspace({ root })
  return { root, write: write!, read: read!, list: list! }
}

function sizeOf(listed: unknown): string {
  const { entries, more } = listed as { entries: unknown[]; more: boolean }
  return `${entries.length} ${more}`
}

// Hostile paths, each given to each file tool: nothing outside of the workspace is read, written or shown.

const codes = ['TOOL_INPUT', 'TOOL_FAILED']

t.test('the lists are long', async (t) => {
  t.ok(pathsToRead.length > 500, `${pathsToRead.length} paths`)
  t.ok(pathsToWrite.length > 300, `${pathsToWrite.length} paths`)
})

t.test('no hostile path reads what lies outside', async (t) => {
  const place = makePlace(t)
  const read = toolOf(place, 'read_file')
  const leaks: string[] = []
  for (const path of [...pathsToRead, ...pathsToCanaries(place)]) {
    const text = await answer(t, path, () => call(read, { path }))
    if (text.includes(SECRET) || text.includes('root:')) leaks.push(path)
  }
  t.same(leaks, [])
})

t.test('no hostile path lists what lies outside', async (t) => {
  const place = makePlace(t)
  const list = toolOf(place, 'list_dir')
  const leaks: string[] = []
  for (const path of [...pathsToRead, ...pathsToCanaries(place)]) {
    const text = await answer(t, path, () => call(list, { path }))
    if (/secret\.txt|passwd|outside/.test(text)) leaks.push(path)
  }
  t.same(leaks, [])
})

t.test('no hostile path writes outside', async (t) => {
  const place = makePlace(t)
  const write = toolOf(place, 'write_file')
  const around = place.around()
  const strays: string[] = []
  let written = 0
  for (const path of [...pathsToWrite, ...pathsToCanaries(place)]) {
    const before = place.files()
    const text = await answer(t, path, () => call(write, { path, content: 'taken' }))
    const made = place.files().length - before.length
    if (text === '' ? made !== 0 : made > 1) strays.push(path)
    if (text !== '') written += 1
  }
  t.same(strays, [])
  t.equal(place.around(), around)
  t.ok(written > 0, 'names that only look hostile are names')
  t.same(
    place.files().filter((name) => name.endsWith('.tmp')),
    [],
  )
})

// the way of Linux, and the way of all other platforms
for (const held of process.platform === 'linux' ? [true, false] : [false]) {
  t.test(`no link leads out (folders ${held ? 'held open' : 'by path'})`, async (t) => {
    const place = makePlace(t)
    const around = place.around()
    const { toCanaries, toMachine } = plantLinks(place)
    const root = new Root(place.root, held)
    const { signal } = new AbortController()
    const done: string[] = []
    for (const path of [...toCanaries, ...toMachine]) {
      if ((await answer(t, path, () => readText(root, path, signal))) !== '') done.push(`read ${path}`)
      if ((await answer(t, path, () => listFolder(root, path, signal))) !== '') done.push(`list ${path}`)
    }
    for (const path of toCanaries) {
      if ((await answer(t, path, () => writeText(root, path, 'taken', signal))) !== '') done.push(`write ${path}`)
    }
    t.same(done, [])
    t.equal(place.around(), around)
  })

  t.test(`writing to a hard link leaves the other name as it was (${held ? 'held open' : 'by path'})`, async (t) => {
    const place = makePlace(t)
    linkSync(place.canaries[0]!, join(place.root, 'hard'))
    const root = new Root(place.root, held)
    await writeText(root, 'hard', 'mine', new AbortController().signal)
    t.equal(readFileSync(place.canaries[0]!, 'utf8'), SECRET)
    t.equal(await readText(root, 'hard', new AbortController().signal), 'mine')
  })
}

t.test('a root that became a link is not followed', async (t) => {
  const place = makePlace(t)
  const [, read] = workspace({ root: place.root })
  t.equal(await call(read!, { path: 'src/main.py' }), 'print(1)\n')
  renameSync(place.root, `${place.root}-moved`)
  symlinkSync(place.outside, place.root)
  await t.rejects(call(read!, { path: 'secret.txt' }), { code: 'TOOL_FAILED' })
})

t.test('what Windows takes for a device, a stream or another name is refused there', async (t) => {
  for (const path of ['CON', 'nul.txt', 'a/COM1', 'LPT¹.log', 'x::$DATA', 'a:b', 'CONIN$', 'a|b', 'a?', 'b*']) {
    t.throws(() => pathNames(path, 'C:\\work', 'win32'), { code: 'TOOL_INPUT' }, path)
  }
  for (const path of ['..', 'a/../b', 'C:\\x', 'c:/x', '\\\\server\\x', '\\x', 'a\\b', 'name.', 'name ', '.. ']) {
    t.throws(() => pathNames(path, 'C:\\work', 'win32'), { code: 'TOOL_INPUT' }, path)
  }
  t.same(pathNames('console/common.txt', 'C:\\work', 'win32'), ['console', 'common.txt'])
})

function pathsToCanaries(place: Place): string[] {
  return [...place.canaries.flatMap((file) => pathsTo(file)), `${place.root}/../outside/secret.txt`]
}

function toolOf({ root }: Place, name: string) {
  return workspace({ root }).find((tool) => tool.name === name)!
}

/** What a tool says, in whichever way it says it: nothing but an answer or an error of ours. */
async function answer(t: Test, path: string, use: () => Promise<unknown>): Promise<string> {
  try {
    const value = await use()
    return value === undefined ? 'undefined' : JSON.stringify(value)
  } catch (error) {
    if (!(error instanceof DramatisError) || !codes.includes(error.code)) t.fail(`${path}: ${error}`)
    return '' // the message has the path in it, and that alone
  }
}
