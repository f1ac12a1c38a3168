/** Hostile paths, each given to each file tool: nothing outside of the workspace is read, written or shown. */
import { linkSync, readFileSync, renameSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import t from 'tap'
import { DramatisError } from '../../src/shared/errors.ts'
import { listFolder, readText, writeText } from '../../src/tools/files.ts'
import { pathNames, Root } from '../../src/tools/folder.ts'
import { workspace } from '../../src/tools/workspace.ts'
import { call } from './calls.ts'
import { pathsTo, pathsToRead, pathsToWrite } from './hostile-paths.ts'
import { makePlace, type Place, plantLinks, SECRET } from './outside.ts'

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
