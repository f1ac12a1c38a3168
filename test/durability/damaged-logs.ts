/** A log of a team with finished and open runs, part of it compacted, for tests that damage copies of it. */
import { cpSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { createTeam, type Run } from '../../src/index.ts'
import { compactLog } from '../../src/runtime/durability/log-tools.ts'
import { entriesOf } from '../../src/runtime/log/read-entries.ts'
import { FileStore } from '../../src/runtime/store/file-store.ts'
import { readLog } from '../../src/runtime/store/log-reader.ts'
import { modelServer } from '../fixtures/model-server.ts'
import { silent } from '../kit/team.ts'
import { contentOf } from '../simulation/invariants.ts'
import { folderOf } from './log-folders.ts'

const module = new URL('../fixtures/durability/old-log-agent.js', import.meta.url)

/** Said by each run of a thread. */
const SAID = Array.from({ length: 200 }, (_, n) => `word-${n}`).join(' ')

/** Size of the segments of such a log. */
export const SEGMENT_BYTES = 6_000

/** A team whose runs do what their query says: `ann step one, bob publish page`. */
export async function deskOn(t: Test, path: string, resume: 'start' | 'manual' = 'start') {
  const server = await modelServer(t)
  server.always(({ prompt }) => `You said ${prompt.length} letters`)
  const team = createTeam({
    agents: ['ann', 'bob', 'cid', 'dot'].map((name) => ({ name, module })),
    models: { default: { model: 'gpt-4o', baseURL: server.baseURL, apiKey: 'none' } },
    logger: silent,
    stateManagement: { store: new FileStore(path, { segmentBytes: SEGMENT_BYTES }), keep: { runs: 1_000 }, resume },
    orchestration: {
      strategy: 'custom',
      name: 'a desk',
      async run(script, query) {
        const said: string[] = []
        for (const each of query.split(', ')) {
          const [agent = '', ...words] = each.split(' ')
          said.push((await script.request(agent, words.join(' '))).content)
        }
        return said.join(' | ')
      },
    },
  })
  t.teardown(() => team.close())
  return { team, server }
}

export async function questionOf(run: Run<unknown>): Promise<string> {
  for await (const event of run.events()) if (event.type === 'question') return event.questionId
  throw new Error('no question came')
}

/**
 * Makes a log of 14 runs that have ended, `ended 1` and so on, and two that are open: `asks`, and `talks`, which has
 * called a model three times in a turn. Those before `ended 8` were compacted. `ended 8`, 9 and 10
 * are of one thread and say the same, so that each has copies of what the one before it said.
 */
export async function deskLog(t: Test): Promise<string> {
  const path = join(folderOf(t), 'log')
  const first = await deskOn(t, path)
  await questionOf(first.team.launch('ann step one, cid ask really, ann heard', { runId: 'asks' }))
  await questionOf(first.team.launch('dot talk much', { runId: 'talks' }))
  for (let n = 1; n <= 7; n++)
    await first.team.execute(`ann step ${n}, bob publish page-${n}, bob count ${n}`, { runId: `ended ${n}` })
  await first.team.close()
  const store = new FileStore(path, { segmentBytes: SEGMENT_BYTES })
  await compactLog(store, { keep: { runs: 5, days: 30, bytes: 2 ** 30 }, logger: silent })
  await store.close()
  const second = await deskOn(t, path, 'manual')
  for (let n = 8; n <= 14; n++) {
    const thread = n <= 10 && { threadId: 'talk' }
    const said = n <= 10 ? ` ${SAID}` : ''
    const query = `ann step ${n}, bob publish page-${n}, bob count ${n}${said}`
    await second.team.execute(query, { runId: `ended ${n}`, ...thread })
  }
  await second.team.close()
  return path
}

/** Copies a log, so that the copy can be damaged. */
export function copyOf(t: Test, path: string): string {
  const copy = join(folderOf(t), 'log')
  cpSync(path, copy, { recursive: true })
  return copy
}

/** Entries of each run of a log by its id, as they can be compared. Runs without a begin are left out. */
export async function runsIn(path: string): Promise<Map<string, object[]>> {
  const ids = new Map<number, string>()
  const runs = new Map<string, object[]>()
  for await (const entry of entriesOf(() => readLog(path))) {
    if (entry.kind === 'run.launched') {
      ids.set(entry.run, entry.id)
      runs.set(entry.id, [])
    }
    runs.get(ids.get(entry.run) ?? '')?.push(contentOf(entry))
  }
  return runs
}
