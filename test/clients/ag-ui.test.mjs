/** The client of AG-UI, which verifies the order of events, and keeps the messages. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { HttpAgent } from '@ag-ui/client'
import { ANN, listen, opening, until } from './shop.mjs'

const agentOf = (url, id) => new HttpAgent({ url: `${url}/ag-ui/shop`, threadId: id, headers: ANN })
const shown = ({ messages }) =>
  messages.map(({ role, content, toolCalls }) => `${role}: ${content ?? toolCalls[0].function.name}`)

test('text, thoughts, and approvals as interrupts', async (t) => {
  const { url, done, close } = await listen()
  t.after(close)
  const agent = agentOf(url, 'c')
  agent.addMessage({ id: '1', role: 'user', content: 'think twice' })
  assert.equal((await agent.runAgent()).result, 'thought')
  assert.deepEqual(shown(agent), ['user: think twice', 'reasoning: about twice', 'assistant: thought'])
  for (const [id, approved] of [
    ['2', true],
    ['3', false],
  ]) {
    agent.addMessage({ id, role: 'user', content: 'use buy lamp' })
    await agent.runAgent()
    const [{ id: interruptId }] = agent.pendingInterrupts
    await agent.runAgent({ resume: [{ interruptId, status: 'resolved', payload: { approved } }] })
    assert.equal(agent.pendingInterrupts.length, 0)
    const said = shown(agent).slice(-4)
    assert.deepEqual(said.slice(0, 2), ['assistant: Let me see. ', 'assistant: buy'])
    assert.match(said[2], approved ? /^tool: \{"done":"lamp"\}$/ : /^tool: It was not approved/)
  }
  assert.deepEqual(done, ['buy lamp'])
})

test('a run that was cut is joined by the same messages', async (t) => {
  const gate = opening()
  const { url, team, close } = await listen({ pause: (word) => (word === 'two' ? gate.promise : undefined) })
  t.after(close)
  const agent = agentOf(url, 'c')
  agent.addMessage({ id: '1', role: 'user', content: 'say one two' })
  const cut = agent.runAgent().catch(() => {})
  await until(() => shown(agent).at(-1) === 'assistant: one ')
  agent.abortRun()
  await cut
  const again = agent.runAgent()
  gate.resolve()
  await again
  assert.deepEqual(shown(agent), ['user: say one two', 'assistant: one two '])
  assert.equal((await team.listRuns()).length, 1)
})
