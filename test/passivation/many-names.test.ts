/** Many agents on few threads: each finds the others by name, also those that join, leave, or that it has never heard of. */
import t from 'tap'
import { ask, numbers } from '../kit/team.ts'
import { folderOf } from '../team/reloading.ts'

const agent = `
import { defineAgent } from 'dramatis'
export default defineAgent({
  async receive({ content, sender }, context) {
    const [verb, to, ...rest] = content.split(' ')
    if (verb !== 'ask') return sender + ' wrote ' + content + ' to ' + context.role.name
    try {
      return (await context.request(to, rest.join(' ') || 'hello')).content
    } catch (error) {
      return error.code + ' ' + error.message
    }
  },
})`

const names = numbers(300).map((number) => `agent${number}`)

function teamOf(t: Parameters<typeof folderOf>[0], max = 3) {
  const { team: start, module } = folderOf(t, { 'a.js': agent })
  const team = start(Object.fromEntries(names.map((name) => [name, { file: 'a.js' }])), { threads: { max } })
  return { team, module: module('a.js') }
}

t.test('an agent reaches a name that it has never used, and knows by name who writes to it', async (t) => {
  const { team } = teamOf(t)
  t.equal(await ask(team, 'agent0', 'hello'), '$user wrote hello to agent0')
  t.equal(await ask(team, 'agent0', 'ask agent299'), 'agent0 wrote hello to agent299')
  t.equal(await ask(team, 'agent150', 'ask agent7 ask agent298'), 'agent7 wrote hello to agent298')
})

t.test('a name that nobody has is refused, and the nearest one is named', async (t) => {
  const { team } = teamOf(t)
  t.match(await ask(team, 'agent0', 'ask agemt299'), /^UNKNOWN_AGENT .*did you mean "agent299"/)
  t.match(await ask(team, 'agent0', 'ask $orchestrator'), /^[A-Z_]+ /, 'nor is the runtime an agent')
  t.equal(await ask(team, 'agent0', 'ask agent299'), 'agent0 wrote hello to agent299')
})

t.test(
  'an agent that joins is found by threads that run, and by those that begin later; one that leaves is not',
  async (t) => {
    const { team, module } = teamOf(t)
    await ask(team, 'agent0', 'hello')
    const late = { name: 'late', module }
    await team.addAgent(late)
    t.equal(await ask(team, 'agent0', 'ask late'), 'agent0 wrote hello to late', 'its thread was there before')
    t.equal(await ask(team, 'agent5', 'ask late'), 'agent5 wrote hello to late', 'its thread began after it')
    t.equal(await ask(team, 'late', 'ask agent299'), 'late wrote hello to agent299')
    t.equal(team.listAgents().length, names.length + 1)

    await team.removeAgent('late')
    for (const name of ['agent0', 'agent6'])
      t.match(await ask(team, name, 'ask late'), /^(AGENT_TERMINATED|UNKNOWN_AGENT) /, name)
    await team.addAgent(late)
    for (const name of ['agent0', 'agent7']) t.equal(await ask(team, name, 'ask late'), `${name} wrote hello to late`)
  },
)
