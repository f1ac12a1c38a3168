/** A worker that was told a tool uses it with the input of its sub-task. */

import type { Test } from 'tap'
import t from 'tap'
import { z } from 'zod'
import { textOf } from '../../src/actors/definition/content.ts'
import { defineTool } from '../../src/index.ts'
import { testTeam } from '../../src/testing.ts'
import { silent } from '../kit/team.ts'
import { type Answer, calls, FakeModel } from './fake-model.ts'

/** A chief whose plan is one task for `worker`, whose model answers that one after the other. */
async function played(t: Test, task: object, answers: readonly Answer[], fails = false) {
  const inputs: unknown[] = []
  const tool = (name: string) =>
    defineTool({
      name,
      description: 'Looks things up.',
      input: z.object({ query: z.string() }),
      run(input) {
        inputs.push({ [name]: input })
        if (fails) throw new Error('the service is down')
        return `found ${input.query}`
      },
    })
  const model = new FakeModel(({ agent, messages }, nth) => {
    if (agent === 'worker') return answers[model.requests.filter((each) => each.agent === 'worker').length - 1]!
    const plan = { tasks: [{ agent: 'worker', task: 'Look it up.', ...task }], reasoning: '' }
    return nth === 0 ? JSON.stringify(plan) : textOf(messages.at(-1)?.content ?? '')
  })
  const team = testTeam(
    {
      agents: [{ name: 'chief' }, { name: 'worker', tools: [tool('search'), tool('archive')] }],
      orchestration: { strategy: 'supervisor', supervisor: 'chief', experts: ['worker'] },
      logger: silent,
    },
    { model },
  )
  t.teardown(() => team.close())
  const result = await team.execute('What?')
  const asked = model.requests.filter(({ agent }) => agent === 'worker')
  return { inputs, asked, result, said: asked.map(({ messages }) => textOf(messages.at(-1)?.content ?? '')) }
}

const choices = (asked: Awaited<ReturnType<typeof played>>['asked']) => asked.map(({ toolChoice }) => toolChoice)

t.test('an input that fits is given to the tool before the model is asked, and its result is told', async (t) => {
  const { inputs, asked, said, result } = await played(t, { tool: 'search', input: { query: 'rain' } }, ['It rains.'])
  t.same(inputs, [{ search: { query: 'rain' } }])
  t.match(said, [/The tool "search" was called with the input of this sub-task\. Its result:\n\nfound rain/])
  t.same(choices(asked), [undefined])
  t.match(result, { success: true, finalOutput: /It rains/ })
})

t.test('a tool that fails is told to the model', async (t) => {
  const { inputs, said } = await played(t, { tool: 'search', input: { query: 'rain' } }, ['Nothing.'], true)
  t.equal(inputs.length, 1)
  t.match(said, [/was called with the input of this sub-task\. Error: .*the service is down/])
})

for (const [what, task] of [
  ['an input that does not fit', { tool: 'search', input: { city: 'Oslo' } }],
  ['no input', { tool: 'search' }],
] as const)
  t.test(`with ${what} the model has to call the tool first`, async (t) => {
    const { inputs, asked } = await played(t, task, [calls(['search', { query: 'Oslo' }]), 'It rains.'])
    t.same(inputs, [{ search: { query: 'Oslo' } }])
    t.same(choices(asked), [{ tool: 'search' }, undefined])
  })

for (const [what, first] of [
  ['a call of another tool', calls(['archive', { query: 'Oslo' }])],
  ['words', 'I know that.'],
] as const)
  t.test(`in the place of the first call, ${what} is sent back once`, async (t) => {
    const once = await played(t, { tool: 'search' }, [first, calls(['search', { query: 'Oslo' }]), 'It rains.'])
    t.same(once.inputs, [{ search: { query: 'Oslo' } }])
    t.match(once.said[1], /this sub-task names the tool "search"/)
    t.same(choices(once.asked), [{ tool: 'search' }, { tool: 'search' }, undefined])
    const again = await played(t, { tool: 'search' }, [first, 'I know that.'])
    t.match(again.result, { success: true, finalOutput: /I know that/ })
    t.same(again.inputs, [])
  })

t.test('a tool that the worker does not have is a suggestion, as ever', async (t) => {
  const { asked, inputs } = await played(t, { tool: 'weather', input: { city: 'Oslo' } }, ['It rains.'])
  t.same([choices(asked), inputs], [[undefined], []])
})
