/** A member of a cluster with an HTTP API, as a process that can be killed. */
import type { ClusterOptions } from '../../src/index.ts'
import { serve } from './served.ts'

const member = await serve(JSON.parse(process.argv[2] ?? '') as ClusterOptions)
process.on('message', () => process.send?.([...member.team.held.keys()]))
process.on('disconnect', () => process.exit())
process.send?.('ready')
