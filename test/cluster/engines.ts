/** The engines of a cluster, as tests have them that know none: each starts servers of its own. */
import { PostgresServer, postgresFolder } from '../../examples/cluster-demo/postgres-server.ts'
import { brokerFaults } from '../jetstream/broker-faults.ts'
import { NatsBrokers, natsServer, WHY_NOT } from '../jetstream/nats-brokers.ts'
import { databaseFaults } from '../postgres/database-faults.ts'
import { Doors } from './doors.ts'
import type { Fault } from './nemesis.ts'

export interface RunningEngine {
  /** Its address, as each process has it. */
  readonly urls: readonly string[]
  /** Its own faults. */
  readonly faults: readonly Fault[]
  /** Time in ms in which all has to end behind the last fault. */
  readonly patienceMs: number
  remove(): Promise<void>
}

export interface Engine {
  readonly name: string
  /** Why it cannot be had here. */
  readonly skip: string | false
  start(cluster: string, processes: number): Promise<RunningEngine>
}

const FROZEN_MS = 3_000

export const engines: readonly Engine[] = [
  {
    name: 'PostgreSQL',
    skip: !postgresFolder() && 'no PostgreSQL is installed here',
    async start(_, processes) {
      const server = await PostgresServer.start(postgresFolder()!)
      const doors = await Doors.before([server.port], processes)
      return {
        urls: doors.ports.map(([port]) => server.urlBy(port!)),
        faults: [...databaseFaults(server, FROZEN_MS), ...doors.faults(FROZEN_MS)],
        patienceMs: 60_000,
        async remove() {
          doors.close()
          await server.remove()
        },
      }
    },
  },
  {
    name: 'JetStream',
    skip: !natsServer() && WHY_NOT,
    async start(cluster, processes) {
      const brokers = await NatsBrokers.start(natsServer()!)
      const doors = await Doors.before(
        brokers.all.map(({ port }) => port),
        processes,
      )
      return {
        urls: doors.ports.map((ports) => brokers.urlBy(ports)),
        faults: [...brokerFaults(brokers, cluster, FROZEN_MS), ...doors.faults(FROZEN_MS)],
        patienceMs: 240_000, // a stream whose brokers were killed may have no leader for a minute on a busy machine
        async remove() {
          doors.close()
          await brokers.remove()
        },
      }
    },
  },
]
