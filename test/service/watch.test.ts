/** `dramatis run --watch`: agents get the code of their files as these are saved. */
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Test } from 'tap'
import t from 'tap'
import { createTeam } from '../../src/index.ts'
import { CodeWatch } from '../../src/service/shared/code-watch.ts'
import { systemClock } from '../../src/shared/clock.ts'
import { ask, silent } from '../kit/team.ts'
import { dramatis } from './command-line.ts'

/** The query asks the worker until it says "enough". */
const TEAM = `
import { defineTeam } from 'dramatis'
export default defineTeam({
  agents: [{ name: 'worker', module: new URL('./worker.ts', import.meta.url) }],
  supervision: { livelock: false },
  orchestration: {
    strategy: 'custom',
    async run(script, query) {
      for (;;) {
        const { content } = await script.request('worker', query)
        if (content !== 'more') return content
        await script.sleep(20)
      }
    },
  },
})`
const WORKER = `
import { defineAgent } from 'dramatis'
import { answer } from './lib/answer.ts'
export default defineAgent({ receive: () => answer })`
const answer = (text: string) => `export const answer = '${text}'`

t.test('a file that is saved broken keeps the old code, and says so; the next one is loaded', async (t) => {
  const folder = t.testdir({ 'team.js': TEAM, 'worker.ts': WORKER, lib: { 'answer.ts': answer('more') } })
  const file = join(folder, 'lib', 'answer.ts')
  const saves = [
    { at: /^worker is ready$/m, text: 'export const answer = {{' },
    { at: /keeps its old code/, text: answer('enough') },
  ]
  const heard = (stderr: string) => {
    if (saves[0]?.at.test(stderr)) writeFileSync(file, saves.shift()!.text)
  }
  const { code, stdout, stderr } = await dramatis(['run', 'team.js', 'go', '--watch'], { cwd: folder, heard })
  t.equal(code, 0, stderr)
  t.equal(stdout, 'enough\n')
  t.match(stderr, /^lib\/answer\.ts changed: Agent "worker" was not reloaded .*lib\/answer\.ts:1:\d+: .*$/m)
  t.match(stderr, /^worker is reloaded: lib\/answer\.ts changed$/m)
  t.equal(stderr.match(/answer\.ts changed/g)?.length, 2, 'one line each')
})

t.test('without --watch nothing is reloaded', async (t) => {
  const folder = t.testdir({
    'team.js': TEAM.replace("content !== 'more'", 'true'),
    'worker.ts': WORKER,
    lib: { 'answer.ts': answer('once') },
  })
  const { stdout, stderr } = await dramatis(['run', 'team.js', 'go'], { cwd: folder })
  t.equal(stdout, 'once\n')
  t.notMatch(stderr, /reloaded/)
})

/** A team whose files are watched, and the lines of the watch. */
async function watched(t: Test, files: Record<string, string>, agents: Record<string, string>) {
  const folder = t.testdir(files)
  const role = (name: string, file: string) => ({ name, module: pathToFileURL(join(folder, file)) })
  const team = createTeam({
    agents: Object.entries(agents).map(([name, file]) => role(name, file)),
    orchestration: { strategy: 'sequential' },
    supervision: { maxRestarts: 0, coolDownMs: 2 ** 30 },
    logger: silent,
  })
  t.teardown(() => team.close())
  const lines: string[] = []
  let heard = () => {}
  const watch = new CodeWatch(team, {}, (line) => {
    lines.push(line)
    heard()
  })
  await watch.ready
  const hold = systemClock.hold() // neither the team nor the watch keeps the process from its end
  t.teardown(() => {
    watch.close()
    hold.cancel()
  })
  await team.start()
  /** Resolves when there are that many lines. */
  const untilLines = (count: number) =>
    new Promise<void>((resolve) => {
      heard = () => lines.length >= count && resolve()
      heard()
    })
  const path = (file: string) => join(folder, file)
  return {
    lines,
    team,
    watch,
    untilLines,
    path,
    role,
    save: (file: string, text: string) => writeFileSync(path(file), text),
  }
}

const says = (text: string) => `import { defineAgent } from 'dramatis'
export default defineAgent({ receive({ content }) {
  if (content === 'die') process.exit(1)
  return '${text}'
} })`

t.test('only agents whose files have changed are reloaded, those that came later too', async (t) => {
  const { lines, team, untilLines, role, save, watch } = await watched(
    t,
    { 'a.js': says('a'), 'b.js': says('b'), 'c.js': says('c') },
    { ann: 'a.js', bob: 'b.js' },
  )
  save('b.js', says('new b'))
  await untilLines(1)
  t.equal(await ask(team, 'bob'), 'new b')
  await team.addAgent(role('cleo', 'c.js'))
  await watch.ready
  save('a.js', says('a')) // saved, but not changed
  save('c.js', says('new c'))
  await untilLines(2)
  t.equal(await ask(team, 'cleo'), 'new c')
  t.match(lines, [/^bob is reloaded: .*b\.js changed$/, /^cleo is reloaded: .*c\.js changed$/])
})

t.test('an import that is new is watched as well, and a file that is gone is told', async (t) => {
  const { lines, team, untilLines, path, save } = await watched(
    t,
    { 'a.js': says('a'), 'word.js': "export default 'one'" },
    { ann: 'a.js' },
  )
  save('a.js', `import word from './word.js'\n${says('x').replace("'x'", 'word')}`)
  await untilLines(1)
  t.equal(await ask(team, 'ann'), 'one')
  save('word.js', "export default 'two'")
  await untilLines(2)
  t.equal(await ask(team, 'ann'), 'two')
  rmSync(path('a.js'))
  await untilLines(3)
  t.match(lines[2], /a\.js changed: .*there is no file .*a\.js/)
  t.equal(await ask(team, 'ann'), 'two')
})

t.test('an agent that was stopped for good begins again when its file is saved', async (t) => {
  const { lines, team, untilLines, save } = await watched(t, { 'a.js': says('a') }, { ann: 'a.js' })
  await t.rejects(ask(team, 'ann', 'die'), { code: 'AGENT_TERMINATED' })
  save('a.js', says('mended'))
  await untilLines(1)
  t.match(lines, [/^ann is restarted: .*a\.js changed$/])
  t.equal(await ask(team, 'ann'), 'mended')
})
