/** `team.reloadAgent` where only some agents of a run may work at a time: permits are for agents that can use them. */
import t from 'tap'
import { defineAgent } from '../../src/index.ts'
import { gate, numbers, outcomeOf } from '../kit/team.ts'
import { changingTeam, roleOf, settle, stateless, version } from './reloading.ts'

t.test('turns of several runs end before the new code begins; no permit is kept from others', async (t) => {
  const { opened, open } = gate()
  const team = changingTeam(
    t,
    { worker: stateless('one', opened), other: version('other') },
    {
      maxConcurrentAgents: 1,
      agents: [roleOf('worker', { concurrency: 4 }), roleOf('other')],
      orchestration: {
        strategy: 'custom',
        run: async (script, query) => {
          const worker = script.request('worker', query)
          const other = await script.request('other', 'go')
          return `${(await worker).content}, ${other.content}`
        },
      },
    },
  )
  await team.start()
  const slow = numbers(2).map(() => team.execute('wait'))
  await settle(team)
  team.code.worker = stateless('two')
  const reload = team.reloadAgent('worker')
  await settle(team)
  const late = team.execute('go')
  await settle(team)
  open()
  for (const result of await Promise.all(slow)) t.match(result.finalOutput, /^one/)
  await reload
  t.match((await late).finalOutput, /^two/)
})

for (const concurrency of [1, 4])
  t.test(
    `a permit that becomes free is not kept while no message may begin (concurrency ${concurrency})`,
    async (t) => {
      const worker = gate()
      const other = gate()
      const answers: string[] = []
      const start = () => worker.opened // one turn at a time: the agent is idle, and its new code takes long to start
      const code = { worker: stateless('worker', worker.opened), other: stateless('other', other.opened) }
      const team = changingTeam(
        t,
        { ...code, third: stateless('third') },
        {
          maxConcurrentAgents: 1,
          agents: [roleOf('worker', { concurrency }), roleOf('other'), roleOf('third')],
          orchestration: {
            strategy: 'custom',
            async run(script, query) {
              if (query === 'alone') return (await script.request('worker', 'wait')).content
              const all = ['other', 'worker', 'third'].map(async (name) => {
                answers.push((await script.request(name, name === 'other' ? 'wait' : 'go')).content)
              })
              await Promise.all(all)
              return ''
            },
          },
        },
      )
      await team.start()
      const runs = concurrency > 1 ? [team.execute('alone')] : []
      await settle(team)
      runs.push(team.execute('together'))
      await settle(team)
      team.code.worker = defineAgent({ start, receive: () => 'worker' })
      const reload = outcomeOf(team.reloadAgent('worker'))
      await settle(team)
      other.open()
      await settle(team)
      t.strictSame(answers, ['other', 'third'])
      t.notOk(reload.settled)
      worker.open()
      for (const result of await Promise.all(runs)) t.match(result, { success: true })
    },
  )
