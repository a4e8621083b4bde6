SELECT a.id, a.item_name, max(b.price)
FROM auction AS a LEFT JOIN bid AS b ON a.id = b.auction
GROUP BY a.id, a.item_name
