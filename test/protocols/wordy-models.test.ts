/** Models that answer in words where a strategy asks for data: they fare as agents of code that do so. */
import t from 'tap'
import type { OrchestrationConfig } from '../../src/index.ts'
import { scriptedModel, testTeam } from '../../src/testing.ts'
import { decisions } from './speakers.ts'

type Reply = string | object

/** Each says its lines, the last one again and again. */
async function play(orchestration: OrchestrationConfig<string>, lines: Record<string, Reply[]>) {
  const names = Object.keys(lines)
  const script = names.flatMap((agent) => {
    const last = lines[agent]?.at(-1) ?? ''
    return [...(lines[agent] ?? []), ...Array<Reply>(8).fill(last)].map((reply) => ({ agent, reply }))
  })
  const team = testTeam({ agents: names.map((name) => ({ name })), orchestration }, { model: scriptedModel(script) })
  try {
    return await team.execute('Migrate?')
  } finally {
    await team.close()
  }
}

const DEBATE = { strategy: 'debate' as const, debaters: ['pro', 'con'], judge: 'judge', maxRounds: 1 }
const no = { argument: 'No.', evidence: ['a count'] }

t.test('what a debater says without evidence stands, and it stays in the debate', async (t) => {
  const verdict = { winner: 'pro', reasons: 'It is right.' }
  const result = await play(DEBATE, { pro: ['Yes, for speed.'], con: [no], judge: [verdict, 'Yes.'] })
  t.match(result, { success: true, finalOutput: 'Yes.', failures: [] })
  t.ok(decisions(result).includes('Does "pro" give evidence in round 1? no'))
  const verdictAsked = result.messageHistory.find(({ recipient }) => recipient === 'judge')
  t.match(verdictAsked?.content, /Yes, for speed\.\n\n\(without evidence\)/)
})

t.test('a judge that gives no verdict ends the run with ReplyInvalidError', async (t) => {
  const result = await play(DEBATE, { pro: [no], con: [no], judge: ['pro wins'] })
  t.match(result.error, { code: 'REPLY_INVALID', details: { agent: 'judge', content: 'pro wins' } })
  t.equal(result.totalTokenUsage.calls, 4, 'the judge is told once that JSON is wanted')
})

t.test('a member whose vote nobody understands stays, and counts as not agreeing', async (t) => {
  const result = await play(
    { strategy: 'consensus', consensusMethod: 'vote', maxRounds: 1 },
    { a: ['A', { choice: 1 }], b: ['B', { choice: 1 }], c: ['C', 'The first, I think.'] },
  )
  t.match(result.error, { code: 'CONSENSUS' })
  t.ok(decisions(result).includes('Does the vote of "c" count? no'))
})

t.test('a manager that will not plan has done the work itself', async (t) => {
  const result = await play(
    { strategy: 'hierarchical', manager: 'lead', workers: ['ann'] },
    { lead: ['It is done.'], ann: ['?'] },
  )
  t.match(result, { success: true, finalOutput: 'It is done.' })
  t.same(decisions(result), ['Who does the work? lead'])
})

t.test('one that is told once that JSON is wanted may still give it', async (t) => {
  const plan = { tasks: [{ worker: 'ann', task: 'dig' }] }
  const result = await play(
    { strategy: 'hierarchical', manager: 'lead', workers: ['ann'], workerAutonomy: 'high' },
    { lead: ['Let ann dig.', plan, 'Dug.'], ann: ['a hole'] },
  )
  t.match(result, { success: true, finalOutput: 'Dug.' })
})

t.test('a note that is null is none, whoever gives it', async (t) => {
  const accepts = { accept: true, objection: null }
  const synthesis = { strategy: 'consensus' as const, consensusMethod: 'synthesis' as const, maxRounds: 1 }
  t.equal((await play(synthesis, { a: ['A', 'both'], b: ['B', accepts], c: ['C', accepts] })).finalOutput, 'both')

  const vote = { choice: 1, reasons: null }
  const ballots = { strategy: 'consensus' as const, consensusMethod: 'vote' as const, maxRounds: 1 }
  t.equal((await play(ballots, { a: ['A', vote], b: ['B', vote] })).finalOutput, 'A')

  const view = { agreesWith: 'b', answer: null, reasons: null }
  t.equal((await play({ strategy: 'consensus', maxRounds: 1 }, { a: ['A', view], b: ['B', view] })).finalOutput, 'B')

  const judge = [{ winner: 'con', reasons: null }, 'No.']
  t.equal((await play(DEBATE, { pro: [no], con: [no], judge })).finalOutput, 'No.')

  const plan = { tasks: [{ worker: 'ann', task: 'dig', dependsOn: null }], reasoning: null }
  const approved = { approved: true, remarks: null }
  const led = { strategy: 'hierarchical' as const, manager: 'lead', workers: ['ann'] }
  t.equal((await play(led, { lead: [plan, approved, approved, 'Dug.'], ann: ['a hole'] })).finalOutput, 'Dug.')

  // A plan says why; one that does not the second time either is taken.
  const split = { tasks: [{ agent: 'ann', task: 'dig', dependsOn: null }], reasoning: null }
  const supervised = { strategy: 'supervisor' as const, supervisor: 'lead', experts: ['ann'] }
  t.equal((await play(supervised, { lead: [split, split, 'Dug.'], ann: ['a hole'] })).finalOutput, 'Dug.')
})
