/** Tools that had begun when their process ended: what a later process does with them, and with which key. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import t from 'tap'
import { type AgentRole, createTeam, type MultiAgentPattern } from '../../src/index.ts'
import { callerModule, ledger, recordModule, underWay } from '../toolbox/desk.ts'
import { folderOf } from './log-folders.ts'

const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }

function deskOf(t: Test, path: string, tools: NonNullable<AgentRole['tools']>): MultiAgentPattern {
  const team = createTeam({
    agents: [{ name: 'ann', module: callerModule, tools }],
    stateManagement: { path },
    logger: silent,
    orchestration: { strategy: 'custom', run: async (desk, call) => said(await desk.request('ann', call)) },
  })
  t.teardown(() => team.close())
  return team
}

const said = ({ structuredData }: { structuredData?: unknown }) => JSON.stringify(structuredData)

/** Ends a team in the middle of a call of the tool; returns what the next one has made of it. */
async function interrupted(t: Test, tools: NonNullable<AgentRole['tools']>, tool: string) {
  const path = join(folderOf(t), 'log')
  const { file, keys } = ledger(t)
  const call = JSON.stringify({ tool, input: { file, act: 'hold' }, times: 1 })
  const before = deskOf(t, path, tools)
  const begun = underWay(before)
  before.launch(call, { runId: 'one' })
  await begun
  await before.flush()
  await before.close()
  writeFileSync(`${file}.go`, '')
  const after = deskOf(t, path, tools)
  await after.start()
  return { result: await after.getRun('one')!.result, keys: keys() }
}

for (const isolate of [true, false]) {
  const place = isolate ? 'an isolated tool' : "a tool in the agent's thread"
  const tools = [
    { module: recordModule, ...(isolate && { isolate }) },
    { module: recordModule, export: 'again', ...(isolate && { isolate }) },
  ] as NonNullable<AgentRole['tools']>

  t.test(`${place} that may run twice runs again in the next process, with the same key`, async (t) => {
    const { result, keys } = await interrupted(t, tools, 'again')
    t.match(result, { success: true, finalOutput: /"runs":2/ })
    t.equal(keys.length, 2)
    t.equal(keys[0], keys[1])
  })

  t.test(`${place} that may not run twice has an unknown outcome`, async (t) => {
    const { result, keys } = await interrupted(t, tools, 'record')
    // the call of an isolated tool fails; in the thread nobody can tell how far the turn was
    if (isolate) t.match(result, { success: true, finalOutput: /OUTCOME_UNKNOWN/ })
    else t.match(result, { success: false, error: { code: 'OUTCOME_UNKNOWN', details: { tool: 'record' } } })
    t.equal(keys.length, 1)
  })
}
