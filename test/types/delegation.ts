/** Tasks: what goes in, and what comes of them. */
import { createTeam, defineAgent, type TaskInput } from 'dramatis'

export const lead = defineAgent({
  async receive(_message, context) {
    const given = context.delegate('worker', 'Dig.')
    const id: string = await given.id
    await context.delegate('worker', { description: 'Fill.', dependencies: [id] })
    const task = await given
    const again: TaskInput = task
    await context.delegate('worker', {
      description: 'Dig.',
      priority: 1,
      deadline: context.now() + 1_000,
      dependencies: [task.id],
    })
    // @ts-expect-error a task says what it is about
    await context.delegate('worker', { priority: 1 })
    // @ts-expect-error its id is the runtime's to give
    await context.delegate('worker', { description: 'Dig.', id: 'mine' })
    await context.handoff('worker', { ...task, status: 'in_progress' }, 'Half a hole.')
    await context.handoff('worker', { description: 'Dig on.' })
    // @ts-expect-error a task says what it is about
    await context.handoff('worker', { priority: 1 })
    const outcome = await context.escalate('no spade', { tried: ['hands'] })
    if (outcome.kind === 'guidance') return outcome.guidance
    if (outcome.kind === 'unresolved') throw context.refuse(outcome.reason)
    const { content } = outcome.result
    // @ts-expect-error there is none where somebody else has done it
    outcome.guidance
    const parent: string | null = task.parentTask
    return `${content} ${outcome.to} ${again === task} ${parent} ${task.status satisfies string}`
  },
})

export async function outside() {
  const team = createTeam({
    agents: [
      { name: 'lead', canDelegateTo: ['worker'] },
      { name: 'worker', canDelegateTo: [] },
    ],
    orchestration: { strategy: 'sequential' },
  })
  const allowed: boolean = team.canDelegate('lead', 'worker')
  const others: string[] | undefined = team.getDelegationGraph().lead
  const { status } = await team.delegateTask('lead', 'worker', { description: 'Dig.' }, { depth: 2 })
  return { allowed, others, status }
}
