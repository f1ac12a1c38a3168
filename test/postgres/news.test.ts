/** Processes tell each other of a failover: who still reaches the old primary leaves it. */
import t from 'tap'
import { postgresFolder } from '../../examples/cluster-demo/postgres-server.ts'
import { served, sharedBy } from '../cluster/served.ts'
import { Replicas } from './replicas.ts'

const bin = postgresFolder()
const TRIES = 20

t.test('news', { skip: !bin && 'no PostgreSQL is installed here', timeout: 0 }, async (t) => {
  const replicas = await Replicas.start(bin!, 2, false)
  t.teardown(() => replicas.remove())
  const times = { beatMs: 200, suspectMs: 1_000, graceMs: 500 }
  const [one, apart] = await Promise.all(
    [0, 1].map((process) => served(t, { url: replicas.urlOf(process), name: 'news', times })),
  )
  await sharedBy(one!, apart!)
  await replicas.failOver('split', 1)
  let last: Promise<unknown> | undefined
  let isAccepted = true
  for (let tries = 0; isAccepted && tries < TRIES; tries++) {
    isAccepted = false
    last = apart!.team.launch('slow').then(() => {
      isAccepted = true
    })
    await one!.team.execute('slow')
  }
  t.equal(isAccepted, false, 'the old primary takes no more runs')
  replicas.heal(1)
  await last
  t.equal((await apart!.team.execute('slow')).success, true)
})
