/** A member of a desk that hands on, as a process that can be killed. */
import type { ClusterOptions } from '../../src/index.ts'
import { handingDesk } from './handing-desk.ts'

const team = handingDesk(JSON.parse(process.argv[2] ?? '') as ClusterOptions)
await team.start()
process.on('message', () => process.send?.([...team.held.keys()]))
process.on('disconnect', () => process.exit())
process.send?.('ready')
