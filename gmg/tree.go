package gmg

// tree is a persistent ordered map: a treap whose priorities are hashes of the keys, so its shape depends on its keys alone. Copies share nodes;
// a write copies the path to what it changes (about 2 log2 n nodes), and only those nodes that some copy may still see.
type tree[K, V any] struct {
	order func(a, b K) int
	hash  func(K) uint64
	root  *treeNode[K, V]
	size  int
	edit  *editMark // nodes with this mark are seen by nobody else; nil: none are
}

// editMark tells the nodes of one writer apart; it has a size so that every mark has an address of its own.
type editMark struct{ _ byte }

type treeNode[K, V any] struct {
	key         K
	value       V
	priority    uint64
	left, right *treeNode[K, V]
	edit        *editMark
}

// freeze returns an immutable copy in constant time.
func (t *tree[K, V]) freeze() tree[K, V] {
	t.edit = nil
	return *t
}

// get returns the value of a key.
func (t *tree[K, V]) get(key K) (v V, ok bool) {
	for n := t.root; n != nil; {
		switch c := t.order(key, n.key); {
		case c == 0:
			return n.value, true
		case c < 0:
			n = n.left
		default:
			n = n.right
		}
	}
	return v, false
}

// put sets the value of a key.
func (t *tree[K, V]) put(key K, value V) {
	if t.edit == nil {
		t.edit = new(editMark)
	}
	t.root = t.insert(t.root, key, value)
}

func (t *tree[K, V]) insert(n *treeNode[K, V], key K, value V) *treeNode[K, V] {
	if n == nil {
		t.size++
		return &treeNode[K, V]{key: key, value: value, priority: t.hash(key), edit: t.edit}
	}
	n = t.own(n)
	switch c := t.order(key, n.key); {
	case c == 0:
		n.value = value
	case c < 0:
		n.left = t.insert(n.left, key, value)
		if l := n.left; l.priority > n.priority {
			n.left, l.right = l.right, n
			return l
		}
	default:
		n.right = t.insert(n.right, key, value)
		if r := n.right; r.priority > n.priority {
			n.right, r.left = r.left, n
			return r
		}
	}
	return n
}

// remove takes a key out.
func (t *tree[K, V]) remove(key K) {
	if _, ok := t.get(key); !ok {
		return
	}
	if t.edit == nil {
		t.edit = new(editMark)
	}
	t.size--
	t.root = t.cut(t.root, key)
}

func (t *tree[K, V]) cut(n *treeNode[K, V], key K) *treeNode[K, V] {
	c := t.order(key, n.key)
	if c == 0 {
		return t.join(n.left, n.right)
	}
	n = t.own(n)
	if c < 0 {
		n.left = t.cut(n.left, key)
	} else {
		n.right = t.cut(n.right, key)
	}
	return n
}

// join returns a and b as one, every key of a being below every key of b.
func (t *tree[K, V]) join(a, b *treeNode[K, V]) *treeNode[K, V] {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case a.priority > b.priority:
		a = t.own(a)
		a.right = t.join(a.right, b)
		return a
	default:
		b = t.own(b)
		b.left = t.join(a, b.left)
		return b
	}
}

// own returns n, or a copy of it where others may see n.
func (t *tree[K, V]) own(n *treeNode[K, V]) *treeNode[K, V] {
	if n.edit == t.edit {
		return n
	}
	c := *n
	c.edit = t.edit
	return &c
}

// ascend calls f for the keys from `from` up in order until f returns false.
func (t *tree[K, V]) ascend(from K, f func(K, V) bool) { t.walk(t.root, from, f) }

func (t *tree[K, V]) walk(n *treeNode[K, V], from K, f func(K, V) bool) bool {
	if n == nil {
		return true
	}
	if t.order(n.key, from) >= 0 {
		if !t.walk(n.left, from, f) || !f(n.key, n.value) {
			return false
		}
	}
	return t.walk(n.right, from, f)
}
