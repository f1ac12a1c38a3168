/** The task board is a fold: whatever agents do with their tasks, its events, `run.tasks` and the statuses say the same. */
import t from 'tap'
import type { AgentContext, AgentTask, Run, RuntimeEvent, TaskStatus } from '../../src/index.ts'
import { Dice } from '../dice.ts'
import { leftovers, watchAccounts } from './accounts.ts'
import { openTeam, type Receive } from './teams.ts'

const NAMES = ['a', 'b', 'c', 'd']
const DONE: readonly TaskStatus[] = ['completed', 'failed', 'refused', 'cancelled', 'handed_off']

/** What may come after what; null: the task is new. */
const COURSES: readonly (readonly [TaskStatus | null, readonly TaskStatus[]])[] = [
  [null, ['assigned']],
  ['assigned', ['in_progress', 'blocked', ...DONE]],
  ['in_progress', ['blocked', ...DONE]],
  ['blocked', ['assigned', 'in_progress', ...DONE]],
  ...DONE.map((status) => [status, []] as const),
]
const after = new Map(COURSES)

/** By chance: it does its task, fails, refuses, gives it away whole or in parts, one of which may wait for the other. */
const anything =
  (die: Dice): Receive =>
  async ({ content }, context) => {
    await context.sleep(die.upTo(10))
    const depth = Number(content)
    const other = () => `${die.pick(NAMES)}`
    switch (depth > 3 ? 0 : die.upTo(7)) {
      case 1:
        throw new Error('broken')
      case 2:
        throw context.refuse('busy')
      case 3:
        return context.handoff(other(), `${depth + 1}`)
      case 4:
        return parts(context, other, die, depth)
      case 5:
        void context.delegate(other(), `${depth + 1}`) // which nobody awaits
        return 'left'
      case 6:
        return (await context.escalate('no idea')).kind
      default:
        return 'done'
    }
  }

async function parts(context: AgentContext, other: () => string, die: Dice, depth: number): Promise<string> {
  const description = `${depth + 1}`
  const first = context.delegate(other(), { description, priority: die.upTo(3) })
  const dependencies = [await first.id.catch(() => 'none')]
  const deadline = context.now() + die.upTo(40)
  const second = context.delegate(other(), { description, dependencies, deadline })
  const ended = await Promise.allSettled([first, second])
  return ended.map(({ status }) => status).join()
}

/** The board that the events tell of; each has to fit the one before. */
class Fold {
  readonly tasks = new Map<string, AgentTask>()
  readonly flaws: string[] = []

  take(event: RuntimeEvent): void {
    if (event.type !== 'task') return
    const { task, previous } = event
    const known = this.tasks.get(task.id)?.status ?? null
    if (known !== previous) this.flaws.push(`${task.id} was ${known}, and the event says ${previous}`)
    if (!after.get(previous)?.includes(task.status))
      this.flaws.push(`${task.id} went from ${previous} to ${task.status}`)
    this.tasks.set(task.id, task)
  }
}

const isOver = ({ status }: Run) => status !== 'running' && status !== 'queued'

t.test('whatever becomes of tasks, what tells of them says the same at every moment', async (t) => {
  const seen = new Set<TaskStatus>()
  for (let seed = 1; seed <= 40; seed++) {
    const die = new Dice(seed)
    const cast = Object.fromEntries(NAMES.map((name) => [name, anything(die)]))
    const team = openTeam(
      t,
      {
        boss: () => ({
          content: 'try again',
          structuredData: { decision: die.pick(['guidance', 'take_over']) },
        }),
        ...cast,
      },
      {
        seed,
        roles: Object.fromEntries(NAMES.map((name) => [name, { escalateTo: 'boss' }])),
        orchestration: {
          strategy: 'custom',
          run: async (script) => {
            const given = NAMES.map((name) => script.delegate(name, '0'))
            const dependencies = [await given[0]!.id, await given[1]!.id]
            const last = script.delegate('d', { description: '2', dependencies })
            const ended = await Promise.allSettled([...given, last])
            return ended.map(({ status }) => status).join()
          },
        },
      },
    )
    const accounts = watchAccounts(team.host)
    const fold = new Fold()
    team.events.subscribe((event) => fold.take(event))
    const fate = new Dice(seed + 1_000)
    const run = team.launch('q')
    for (let ms = 0; ms < 2_000 && !isOver(run); ms++) {
      await team.clock.advance(1)
      if (seed % 8 === 0 && ms === 20) await run.cancel()
      if (seed % 3 === 0 && fate.chance(0.1)) team.crash(fate.pick(NAMES))
      t.same([...fold.tasks.values()], run.tasks, `seed ${seed} at ${ms}`)
    }
    const { taskCompletion } = await run.result
    await team.clock.runToIdle()
    const board = Object.fromEntries(run.tasks.map(({ id, status }) => [id, status]))
    t.same([...fold.tasks.values()], run.tasks)
    t.same(taskCompletion, board)
    t.same(team.getTaskStatus(run.id), board)
    t.same(
      run.tasks.filter(({ status }) => !DONE.includes(status)),
      [],
    )
    t.same([...fold.flaws, ...accounts, ...leftovers(team.host)], [], `seed ${seed}`)
    for (const { status } of run.tasks) seen.add(status)
  }
  t.same([...seen].sort(), [...DONE].sort())
})
