/** Three processes of a cluster, killed, frozen, ended, with a database that restarts: nothing is lost or done twice. */
import { endsOnce } from './ends-once.ts'

endsOnce('PostgreSQL', { plain: 15, deep: 36 }, 50)
