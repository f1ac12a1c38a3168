/** A run that everything watches has the same records and the same verdict as one that nobody watches. */
import t from 'tap'
import { defineAgent, type MultiAgentResult } from '../../src/index.ts'
import { HEADER, lengthOf, readBody } from '../../src/mailbox/frame.ts'
import type { RunState } from '../../src/runtime/host/run.ts'
import type { FrameBlock } from '../../src/runtime/log/records.ts'
import { all, stage } from '../team/stage.ts'

Error.stackTraceLimit = 0 // where an error was made depends on what else Node was at, and its stack is in the log

type Team = ReturnType<typeof plays>

/** A writer that crashes once, a board, tasks, and, for some queries, a wait that nobody can end. */
function plays(t: Parameters<typeof stage>[0], seed: number) {
  const lead = defineAgent({
    async receive({ content }, context) {
      const outcomes = await Promise.all(['writer', 'critic'].map((name) => context.delegate(name, content)))
      await context.blackboard.write('plan', outcomes.length, 'fact')
      await context.sleep(context.random() * 10)
      if (content === 'stall') await context.blackboard.waitFor('never')
      if (content === 'deadlock') await context.request('critic', 'ask lead')
      return outcomes.map(({ status }) => status).join()
    },
  })
  const writer = defineAgent({
    async receive(_message, context) {
      await context.sleep(context.random() * 20)
      return 'a draft'
    },
  })
  const critic = defineAgent({
    async receive({ content }, context) {
      if (content === 'ask lead') return (await context.request('lead', 'what?')).content
      await context.send('writer', 'a word')
      return (await context.request('writer', 'again')).content
    },
  })
  return stage(
    t,
    { lead, writer, critic },
    {
      seed,
      enableBlackboard: true,
      orchestration: { strategy: 'sequential', agentOrder: ['lead'] },
      supervision: { backoff: { baseMs: 1, capMs: 5 } },
    },
  )
}

/** Looks at all that can be looked at, in each step of the clock. Returns what ends it. */
function watchAll(team: Team, id: string): () => Promise<unknown> {
  const stop = new AbortController()
  const subscription = team.events.subscribe(() => {})
  const run = team.getRun(id)!
  const digest = all(team.watch({ signal: stop.signal }))
  const readers = [all(run.events()), all(run.events({ types: ['message'] })), all(run.text()), all(run.stream())]
  return async () => {
    subscription.unsubscribe()
    await Promise.all(readers)
    stop.abort()
    await digest
  }
}

function lookAtAll(team: Team, id: string): void {
  const run = team.getRun(id)!
  void [run.board()?.query(), run.messageHistory, run.tasks, run.usage, run.status]
  void [team.health(), team.metrics('prometheus'), team.waits(), team.questions(), team.getTaskStatus(id)]
  for (const agent of team.listAgents()) void [agent.status, agent.getContext(), agent.getContextSummary()]
  void all(team.digestOf(id))
  void team.listRuns({ limit: 1 })
}

/** The frames of a block, without what fills them up to their length. */
function framesOf({ memory, from, to }: FrameBlock): string[] {
  const frames: string[] = []
  for (let at = from; at < to; at += lengthOf(memory, at)) {
    const header = Buffer.from(memory.u8.subarray(at, at + HEADER)).toString('hex')
    frames.push(header, JSON.stringify(readBody(memory, at)))
  }
  return frames
}

async function played(
  t: Parameters<typeof stage>[0],
  { seed, query, isWatched }: { seed: number; query: string; isWatched: boolean },
) {
  const team = plays(t, seed)
  const running = team.execute(query, { runId: 'one', timeoutMs: 60_000, stream: true })
  const stop = isWatched ? watchAll(team, 'one') : () => {}
  let result: MultiAgentResult | undefined
  void running.then((ended) => {
    result = ended
  })
  for (let step = 0; !result && step < 1_000; step++) {
    await team.clock.advance(2)
    if (isWatched) lookAtAll(team, 'one')
    if (step === 3) team.crash('writer')
  }
  await stop()
  const { log } = (Reflect.get(team, 'supervisor') as { runs: { find(id: string): RunState } }).runs.find('one')
  const records = Array.from(log.entries(), (entry) =>
    entry.kind === 'frames' ? [entry.seq, entry.at, ...framesOf(entry)].join(' ') : JSON.stringify(entry),
  )
  return { records, verdict: result?.error?.message ?? result?.finalOutput, at: team.clock.now() }
}

for (const query of ['go', 'stall', 'deadlock'])
  t.test(`${query}: whoever watches changes nothing`, async (t) => {
    for (const seed of [1, 2, 3]) {
      const unwatched = await played(t, { seed, query, isWatched: false })
      const watched = await played(t, { seed, query, isWatched: true })
      t.ok(unwatched.records.length > 20)
      t.ok(unwatched.records.some((record) => record.includes('agent.crashed')))
      t.match(
        unwatched.verdict,
        { go: /completed,completed/, stall: /StallError/, deadlock: /DEADLOCK|DeadlockError/ }[query]!,
      )
      t.same(watched, unwatched, `seed ${seed}`)
    }
  })
