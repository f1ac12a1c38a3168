/** Every strategy keeps what `holds.ts` asks of each. */
import { holdsFor } from './holds.ts'

holdsFor('consensus', 'debate', 'blackboard', 'auction', 'hierarchical', 'collaborate', 'supervisor')
holdsFor('sequential', 'parallel', 'custom')
